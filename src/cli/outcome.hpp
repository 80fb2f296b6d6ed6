#pragma once
/// \file
/// How a command ends: its value, or an exit code with one message for standard error.
#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace tenzro::cli {

enum class ExitCode : int {
  done = 0,
  refused = 1,      ///< the node answered with an error, or output has no place
  usage = 2,        ///< the command line, or a local file that it names
  unreachable = 3,  ///< no node there
  interrupted = 130,
};

struct Failure {
  ExitCode code = ExitCode::usage;
  std::string message;
};

template <typename T>
using Outcome = tl::expected<T, Failure>;

[[nodiscard]] inline tl::unexpected<Failure> failure(ExitCode code, std::string message) {
  return tl::unexpected<Failure>(Failure{code, std::move(message)});
}

[[nodiscard]] inline tl::unexpected<Failure> failure(Failure why) {
  return tl::unexpected<Failure>(std::move(why));
}

}  // namespace tenzro::cli
