#pragma once
/// \file
/// toml++ as this module uses it: whole in the header, errors as values, nothing that prints.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>
