#pragma once
/// \file
/// What a node remembers of blobs that its requests wait for.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tenzro/base/ids.hpp"

namespace tenzro::node {

/// A blob that a request wants, and what is known of where it may be.
struct BlobSearch {
  BlobHash hash{};
  std::optional<EndpointId> hint;
  std::optional<ExpertKey> expert;
  bool is_gate = false;
  bool was_fetched = false;
  std::uint64_t bytes_max = 0;  ///< a larger blob is not fetched; 0: no bound of the request's
};

/// A blob that came from peers, and the requests that are not over with it.
struct FetchedBlob {
  std::size_t requests = 0;
  std::uint32_t leases = 0;
  bool is_kept = false;
};

}  // namespace tenzro::node
