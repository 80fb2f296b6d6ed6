#include "tenzro/store/identity.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenzro/base/bytes.hpp"

#include "fd.hpp"
#include "os_error.hpp"

namespace tenzro::store {
namespace {

constexpr std::string_view kName = "identity.key";
constexpr unsigned kMode = 0600;
constexpr std::size_t kHexDigits = 2 * std::tuple_size_v<crypto::Seed>;
constexpr std::size_t kFileBytes = 2 * (kHexDigits + 1);

/// Text that is wiped when it goes: it holds the seed.
struct SecretText {
  /// One byte more than a good file has, so that a longer one is seen as such.
  std::array<char, kFileBytes + 1> bytes{};
  std::size_t size = 0;

  SecretText() = default;
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;

  ~SecretText() { explicit_bzero(bytes.data(), bytes.size()); }

  [[nodiscard]] std::string_view view() const { return {bytes.data(), size}; }
};

std::string damage(std::string_view what) {
  return "is damaged (" + std::string(what) +
         "); restore it from a backup, or move it away to start as a new node";
}

Status read_text(int fd, const std::string& path, SecretText& text) {
  while (text.size < text.bytes.size()) {
    const ssize_t got = ::read(fd, text.bytes.data() + text.size, text.bytes.size() - text.size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(os_error(path, "read", errno));
    if (got == 0) return {};
    text.size += static_cast<std::size_t>(got);
  }
  return {};
}

Result<crypto::Seed> parse(const std::string& path, std::string_view text) {
  if (text.size() != kFileBytes) {
    return fail(ErrorCode::io, path,
                damage("it should have " + std::to_string(kFileBytes) + " bytes"));
  }
  std::optional<Hash32> seed = hash_from_hex(text.substr(0, kHexDigits));
  const std::optional<Hash32> public_key = hash_from_hex(text.substr(kHexDigits + 1, kHexDigits));
  if (!seed || !public_key || text[kHexDigits] != '\n' || text[kFileBytes - 1] != '\n') {
    return fail(ErrorCode::io, path, damage("it should be two lines of hex digits"));
  }
  const bool belongs = crypto::KeyPair::from_seed(*seed).public_key() == *public_key;
  const crypto::Seed result = *seed;
  explicit_bzero(seed->data(), seed->size());
  if (!belongs) return fail(ErrorCode::io, path, damage("its two keys do not belong together"));
  return result;
}

std::string two_lines(const crypto::Seed& seed) {
  return to_hex(seed) + "\n" + to_hex(crypto::KeyPair::from_seed(seed).public_key()) + "\n";
}

Status fill_with_random(crypto::Seed& seed, const std::string& path) {
  std::size_t filled = 0;
  while (filled < seed.size()) {
    const ssize_t got = ::getrandom(seed.data() + filled, seed.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(os_error(path, "get random bytes", errno));
    filled += static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace

Result<Identity> read_identity(const std::string& data_dir) {
  const std::string path = data_dir + "/" + std::string(kName);
  // Not blocking: a pipe of that name must be refused, not waited for.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.is_open()) return fail(os_error(path, "open", errno));

  struct stat info {};

  if (::fstat(fd.get(), &info) != 0) return fail(os_error(path, "inspect", errno));
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::io, path, damage("it is not a regular file"));
  SecretText text;
  if (Status read = read_text(fd.get(), path, text); !read) return fail(read.error());
  const Result<crypto::Seed> seed = parse(path, text.view());
  if (!seed) return fail(seed.error());
  Identity identity{.seed = *seed, .is_new = false, .warning = std::nullopt};
  if ((info.st_mode & 077U) != 0) {
    identity.warning =
        "the secret key '" + echo(path) + "' can be read by others; chmod 600 would stop that";
  }
  return identity;
}

Result<Identity> load_or_create_identity(DataDir& dir) {
  Result<Identity> existing = read_identity(dir.path());
  if (existing || existing.error().code != ErrorCode::not_found) return existing;

  // A dangling link is somebody's key that is missing today, not a node without one.
  struct stat info {};

  const std::string path = dir.path_of(kName);
  if (::lstat(path.c_str(), &info) == 0) {
    return fail(ErrorCode::io, path, damage("it is a link to a file that is not there"));
  }
  Identity identity{.seed = {}, .is_new = true, .warning = std::nullopt};
  if (Status filled = fill_with_random(identity.seed, path); !filled) return fail(filled.error());
  std::string text = two_lines(identity.seed);
  const Status written = dir.write_file(kName, text, kMode);
  explicit_bzero(text.data(), text.size());
  if (!written) return fail(written.error());
  return identity;
}

}  // namespace tenzro::store
