# The libraries that the benches are held against, each where it is installed; nothing else uses them.
# ggml is looked for where -DTENZRO_BENCH_GGML=DIR says (an install prefix, or a source tree with its build), then on
# the system.
set(TENZRO_BENCH_GGML "" CACHE PATH "Where ggml is installed, for ffn_bench and quantise_bench")
find_path(TENZRO_BENCH_GGML_INCLUDE ggml-cpu.h HINTS ${TENZRO_BENCH_GGML} PATH_SUFFIXES include)
foreach(library ggml-cpu ggml ggml-base)
  find_library(TENZRO_BENCH_LIB_${library} ${library} HINTS ${TENZRO_BENCH_GGML} PATH_SUFFIXES lib build/src)
  list(APPEND ggml_libraries ${TENZRO_BENCH_LIB_${library}})
endforeach()
if(TENZRO_BENCH_GGML_INCLUDE AND NOT ggml_libraries MATCHES "NOTFOUND")
  target_include_directories(ffn_bench SYSTEM PRIVATE ${TENZRO_BENCH_GGML_INCLUDE})
  target_link_libraries(ffn_bench PRIVATE -Wl,--start-group ${ggml_libraries} -Wl,--end-group ${CMAKE_DL_LIBS})
  target_compile_definitions(ffn_bench PRIVATE TENZRO_BENCH_HAS_GGML)
  target_include_directories(quantise_bench SYSTEM PRIVATE ${TENZRO_BENCH_GGML_INCLUDE})
  target_link_libraries(quantise_bench PRIVATE ${TENZRO_BENCH_LIB_ggml-base} ${CMAKE_DL_LIBS})
  target_compile_definitions(quantise_bench PRIVATE TENZRO_BENCH_HAS_GGML)
endif()

find_path(TENZRO_BENCH_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
find_library(TENZRO_BENCH_ONEDNN dnnl)
if(TENZRO_BENCH_ONEDNN_INCLUDE AND TENZRO_BENCH_ONEDNN)
  target_link_libraries(ffn_bench PRIVATE ${TENZRO_BENCH_ONEDNN})
  target_compile_definitions(ffn_bench PRIVATE TENZRO_BENCH_HAS_ONEDNN)
endif()

find_path(TENZRO_BENCH_EIGEN_INCLUDE Eigen/Core PATH_SUFFIXES eigen3)
if(TENZRO_BENCH_EIGEN_INCLUDE)
  target_sources(ffn_bench PRIVATE ffn_peers_eigen.cpp)
  set_source_files_properties(ffn_peers_eigen.cpp PROPERTIES
    COMPILE_OPTIONS "-Wno-uninitialized;-Wno-maybe-uninitialized;-O3;-mavx2;-mfma;-mavx512f;-mavx512dq;-mavx512bw;-mavx512vl")
  target_include_directories(ffn_bench SYSTEM PRIVATE ${TENZRO_BENCH_EIGEN_INCLUDE})
  target_compile_definitions(ffn_bench PRIVATE TENZRO_BENCH_HAS_EIGEN)
endif()
