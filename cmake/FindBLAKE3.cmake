# FindBLAKE3: the target BLAKE3::blake3, the official C implementation with its x86-64 assembly.
#
# Looked for in this order; the first that works wins.
#  1. The library and header of libblake3-dev (Debian 13 and later).
#  2. The C sources that librust-blake3-dev installs below /usr/share/cargo/registry.
#  3. The same package, kept from an earlier configure in ${TENZRO_DEPS_CACHE}, else ~/.cache/tenzrod.
#  4. The same package, fetched with apt-get download, unpacked into the build tree with dpkg -x, and kept.
# Nothing is installed and no root is needed; once 3 holds the package, configuring needs no network.
# Variables: BLAKE3_FOUND, BLAKE3_SOURCE_DIR (empty for 1).
if(TARGET BLAKE3::blake3)
  set(BLAKE3_FOUND TRUE)
  return()
endif()

set(_blake3_package librust-blake3-dev)
set(_blake3_work ${PROJECT_BINARY_DIR}/_deps/blake3)
set(_blake3_why "")

# _blake3_sources_in(<root> <out>): the newest C source folder of the crate below root, or empty.
function(_blake3_sources_in root out)
  file(GLOB found ${root}/usr/share/cargo/registry/blake3-*/c/blake3.c)
  if(NOT found)
    set(${out} "" PARENT_SCOPE)
    return()
  endif()
  list(SORT found COMPARE NATURAL ORDER DESCENDING)
  list(GET found 0 newest)
  get_filename_component(folder ${newest} DIRECTORY)
  set(${out} ${folder} PARENT_SCOPE)
endfunction()

# _blake3_unpack(<deb> <out>): unpacks a package into the build tree; out as above.
function(_blake3_unpack deb out)
  file(REMOVE_RECURSE ${_blake3_work}/unpacked)
  file(MAKE_DIRECTORY ${_blake3_work}/unpacked)
  execute_process(COMMAND dpkg -x ${deb} ${_blake3_work}/unpacked RESULT_VARIABLE rc OUTPUT_QUIET ERROR_QUIET)
  set(${out} "" PARENT_SCOPE)
  if(rc EQUAL 0)
    _blake3_sources_in(${_blake3_work}/unpacked folder)
    set(${out} "${folder}" PARENT_SCOPE)
  endif()
endfunction()

# _blake3_download(<out> <why>): fetches the package; out is the file, or why says what went wrong.
function(_blake3_download out why)
  file(REMOVE_RECURSE ${_blake3_work}/download)
  file(MAKE_DIRECTORY ${_blake3_work}/download)
  set(${out} "" PARENT_SCOPE)
  execute_process(COMMAND apt-get download ${_blake3_package} WORKING_DIRECTORY ${_blake3_work}/download
                  RESULT_VARIABLE rc OUTPUT_VARIABLE text ERROR_VARIABLE text TIMEOUT 120)
  file(GLOB debs ${_blake3_work}/download/${_blake3_package}_*.deb)
  if(rc EQUAL 0 AND debs)
    list(GET debs 0 deb)
    set(${out} ${deb} PARENT_SCOPE)
  else()
    string(STRIP "${text}" text)
    set(${why} "apt-get download ${_blake3_package}: ${rc} ${text}" PARENT_SCOPE)
  endif()
endfunction()

set(_blake3_cache "$ENV{TENZRO_DEPS_CACHE}")
if(_blake3_cache STREQUAL "" AND NOT "$ENV{HOME}" STREQUAL "")
  set(_blake3_cache "$ENV{HOME}/.cache/tenzrod")
endif()

find_path(BLAKE3_INCLUDE_DIR blake3.h)
find_library(BLAKE3_LIBRARY blake3)
mark_as_advanced(BLAKE3_INCLUDE_DIR BLAKE3_LIBRARY)
set(BLAKE3_SOURCE_DIR "")
if(BLAKE3_INCLUDE_DIR AND BLAKE3_LIBRARY)
  add_library(BLAKE3::blake3 UNKNOWN IMPORTED GLOBAL)
  set_target_properties(BLAKE3::blake3 PROPERTIES IMPORTED_LOCATION ${BLAKE3_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${BLAKE3_INCLUDE_DIR})
  set(BLAKE3_FOUND TRUE)
  return()
endif()

_blake3_sources_in("" BLAKE3_SOURCE_DIR)
if(NOT BLAKE3_SOURCE_DIR)
  _blake3_sources_in(${_blake3_work}/unpacked BLAKE3_SOURCE_DIR)
endif()
if(NOT BLAKE3_SOURCE_DIR AND NOT _blake3_cache STREQUAL "" AND EXISTS ${_blake3_cache}/${_blake3_package}.deb)
  _blake3_unpack(${_blake3_cache}/${_blake3_package}.deb BLAKE3_SOURCE_DIR)
endif()
if(NOT BLAKE3_SOURCE_DIR)
  message(STATUS "BLAKE3: fetching the sources with apt-get download ${_blake3_package}")
  _blake3_download(_blake3_deb _blake3_why)
  if(_blake3_deb)
    _blake3_unpack(${_blake3_deb} BLAKE3_SOURCE_DIR)
    if(NOT BLAKE3_SOURCE_DIR)
      set(_blake3_why "${_blake3_deb} holds no usr/share/cargo/registry/blake3-*/c/blake3.c")
    elseif(NOT _blake3_cache STREQUAL "")
      # Renamed into place, so that a second configure at the same time never sees half a file.
      # A cache that cannot be written costs the next configure a download, nothing else.
      string(RANDOM LENGTH 12 _blake3_unique)
      set(_blake3_part ${_blake3_cache}/.${_blake3_unique}.deb)
      execute_process(COMMAND ${CMAKE_COMMAND} -E make_directory ${_blake3_cache} OUTPUT_QUIET ERROR_QUIET)
      file(COPY_FILE ${_blake3_deb} ${_blake3_part} RESULT _blake3_copied)
      if(_blake3_copied EQUAL 0)
        file(RENAME ${_blake3_part} ${_blake3_cache}/${_blake3_package}.deb RESULT _blake3_kept)
      endif()
    endif()
  endif()
endif()

if(NOT BLAKE3_SOURCE_DIR)
  set(BLAKE3_FOUND FALSE)
  if(BLAKE3_FIND_REQUIRED)
    message(FATAL_ERROR "BLAKE3 was not found, and its sources could not be fetched.\n"
      "  ${_blake3_why}\n"
      "One of these helps:\n"
      "  apt-get install libblake3-dev            (Debian 13 and later)\n"
      "  apt-get update, then configure again     (needs the network once)\n"
      "  put the package of librust-blake3-dev at \${TENZRO_DEPS_CACHE}/${_blake3_package}.deb")
  endif()
  return()
endif()

set(_blake3_files blake3.c blake3_dispatch.c blake3_portable.c)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  enable_language(ASM)
  list(APPEND _blake3_files blake3_sse2_x86-64_unix.S blake3_sse41_x86-64_unix.S
       blake3_avx2_x86-64_unix.S blake3_avx512_x86-64_unix.S)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  list(APPEND _blake3_files blake3_neon.c)
endif()
list(TRANSFORM _blake3_files PREPEND ${BLAKE3_SOURCE_DIR}/)
add_library(tenzro_blake3 STATIC ${_blake3_files})
add_library(BLAKE3::blake3 ALIAS tenzro_blake3)
target_include_directories(tenzro_blake3 SYSTEM PUBLIC ${BLAKE3_SOURCE_DIR})
# Optimised in every configuration: unoptimised hashing would dominate the sanitizer runs.
target_compile_options(tenzro_blake3 PRIVATE $<$<COMPILE_LANGUAGE:C>:-O3>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  target_compile_definitions(tenzro_blake3 PRIVATE BLAKE3_USE_NEON=1)
endif()
set(BLAKE3_FOUND TRUE)
message(STATUS "BLAKE3: ${BLAKE3_SOURCE_DIR}")
