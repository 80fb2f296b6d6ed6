include(GoogleTest)
find_package(GTest REQUIRED)
# tenzro_test(NAME LABEL unit|kernels|sim|functional|... TIMEOUT seconds SOURCES ... DEPS modules... LINK libraries...)
# Tests are named <label>.<Suite>.<Name>. TENZRO_TEST_DATA is the path of tests/data.
# TIMEOUT is for an uninstrumented build; sanitizers get ten times as long.
function(tenzro_test name)
  cmake_parse_arguments(PARSE_ARGV 1 T "" "LABEL;TIMEOUT" "SOURCES;DEPS;LINK")
  if(NOT T_LABEL OR NOT T_TIMEOUT OR T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenzro_test(${name}): LABEL or TIMEOUT is missing, or unknown words: ${T_UNPARSED_ARGUMENTS}")
  endif()
  if(TENZRO_SANITIZE)
    math(EXPR T_TIMEOUT "${T_TIMEOUT} * 10")
  endif()
  add_executable(${name} ${T_SOURCES})
  if(TENZRO_SANITIZE)  # their assertions take most of the compile time, and the code under test keeps its -O1
    target_compile_options(${name} PRIVATE -O0)
  endif()
  list(TRANSFORM T_DEPS PREPEND tenzro_)
  target_link_libraries(${name} PRIVATE tenzro_flags ${T_DEPS} ${T_LINK} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE TENZRO_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  # Listing runs the program: on a busy machine that takes longer than the default of 5 s.
  # Parameters without a printer print as their bytes, addresses among them: the index names them instead.
  gtest_discover_tests(${name} TEST_PREFIX "${T_LABEL}." NO_PRETTY_VALUES DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS "${T_LABEL}" TIMEOUT ${T_TIMEOUT})
endfunction()
