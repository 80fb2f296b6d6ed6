# toml++ as a library that reports and never stops the process: whole in its header, no exceptions, no assertions.
# Its parser asserts on some broken keys (`[(`) before it reports them; without the assertion it reports them well, which
# tests/fuzz/config.cpp watches.
add_library(tomlplusplus_quiet INTERFACE)
target_compile_definitions(tomlplusplus_quiet INTERFACE TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0 TOML_ENABLE_FORMATTERS=0)
target_compile_options(tomlplusplus_quiet INTERFACE "-DTOML_ASSERT(condition)=static_cast<void>(0)")
