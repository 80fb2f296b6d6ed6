#pragma once
/// \file
/// The node's one secret: `<data_dir>/identity.key`.
///
/// Format: two lines of 64 lower-case hex digits, each ended by a newline: the Ed25519 seed, then
/// the public key that belongs to it. Why both: one changed digit in a seed alone would be a valid
/// seed, and so a new identity in silence; beside its public key it is damage. Rules
///  - Made once, from the kernel's random bytes, mode 0600, durable before it is used.
///  - A file that is anything else (short, long, other text, a key that does not belong to the
///  seed, not a regular
///    file, unreadable) is an error that names it. It is never overwritten, and nothing is made in
///    its place.
///  - A file that others can read is a warning: refusing it would stop nodes on mounted secrets.
/// Thread: any.
#include <optional>
#include <string>

#include "tenzro/base/result.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/store/data_dir.hpp"

namespace tenzro::store {

struct Identity {
  crypto::Seed seed{};
  bool is_new = false;
  std::optional<std::string> warning;
};

/// Error: not_found where there is none yet; io otherwise. Needs no lock: for showing the id of a
/// running node.
[[nodiscard]] Result<Identity> read_identity(const std::string& data_dir);

/// Error: io, no_space.
[[nodiscard]] Result<Identity> load_or_create_identity(DataDir& dir);

}  // namespace tenzro::store
