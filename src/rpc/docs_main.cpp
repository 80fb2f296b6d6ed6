/// \file
/// Writes proto/openrpc.json and docs/rpc.md, or checks that they are what it would write.
///
///   tenzro_rpc_docs [--check] PROJECT
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tenzro/rpc/exchange.hpp"

#include "reference.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCommand =
    "cmake --build build/dev --target tenzro_rpc_docs && build/dev/bin/tenzro_rpc_docs .";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool write(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return !error && file.good();
}

/// True where the file holds the text, or was made to.
bool settle(const fs::path& path, const std::string& text, bool only_check) {
  if (only_check) {
    if (read(path) == text) return true;
    std::fprintf(stderr, "%s is stale; run: %s\n", path.c_str(), std::string(kCommand).c_str());
    return false;
  }
  if (write(path, text)) return true;
  std::fprintf(stderr, "cannot write %s\n", path.c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const bool only_check = argc == 3 && std::string_view(argv[1]) == "--check";
  if (argc != 2 && !only_check) {
    std::fprintf(stderr, "usage: tenzro_rpc_docs [--check] PROJECT\n");
    return 2;
  }
  const fs::path project = argv[argc - 1];
  const auto document = nlohmann::ordered_json::parse(tenzro::rpc::open_rpc_document());
  const bool open_rpc = settle(project / "proto/openrpc.json", document.dump(2) + '\n', only_check);
  const bool markdown =
      settle(project / "docs/rpc.md", tenzro::rpc::markdown_reference(), only_check);
  return open_rpc && markdown ? 0 : 1;
}
