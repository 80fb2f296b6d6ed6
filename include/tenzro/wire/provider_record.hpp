#pragma once
/// \file
/// Provider records: what a node says of itself, and which experts it holds (proto/record.proto).
///
/// Rules
///  - Sealed = the message's bytes, then 64 bytes of signature over a tag and exactly these bytes.
///    Nothing is encoded again: what is relayed is what was signed.
///  - Holdings are bitmaps a layer, lists where those are shorter; residency is a bit and types are
///    runs over the held experts. A holder of 64 of 384 experts in 60 layers fits 4 KiB.
///  - Blob hashes stand in pages, one a (model, layer) in ascending order: 32 bytes a held
///    expert, zeros for a load that has no blob to fetch. The table of pages is the pages'
///    SHA-256 hashes one after another, and the record names the table's SHA-256. So whoever has
///    the record checks every page, and a change costs one page and the table.
///  - What an older node does not know of it skips: fields are only ever added.
///  - The decoder refuses what it cannot hold or does not understand: sizes before anything else,
///    layers and experts out of order or range, counts that do not agree.
/// Pure. Thread: any.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"

namespace tenzro::wire {

inline constexpr std::size_t kSignatureBytes = 64;
inline constexpr std::size_t kRecordBytesMax = 900U << 10U;
/// Of one record; a record of fewer always fits, whatever the layers.
inline constexpr std::size_t kRecordHoldingsMax = 131'072;
inline constexpr std::size_t kRecordModelsMax = 256;
inline constexpr std::size_t kRecordAddressesMax = 16;
inline constexpr std::size_t kRecordTextBytesMax = 256;
inline constexpr std::size_t kRecordRepairModelsMax = 64;
inline constexpr std::uint32_t kExpertIndexMax = 65'535;
inline constexpr std::string_view kRecordTag = "tenzro/record/1";

/// Orders what one provider says: the incarnation is the wall clock at its start, in ms.
struct Version {
  static constexpr unsigned kSequenceBits = 22;
  static constexpr std::uint64_t kIncarnationMax = (1ULL << 42U) - 1;
  static constexpr std::uint32_t kSequenceMax = (1U << kSequenceBits) - 1;

  std::uint64_t incarnation = 0;
  std::uint32_t sequence = 0;
  friend auto operator<=>(const Version&, const Version&) = default;

  /// Keeps the order.
  [[nodiscard]] std::uint64_t packed() const { return (incarnation << kSequenceBits) | sequence; }
};

/// GGUF type ids of the three projections; 255 = absent.
struct TypeTriple {
  std::uint8_t gate = 255;
  std::uint8_t up = 0;
  std::uint8_t down = 0;
  friend auto operator<=>(const TypeTriple&, const TypeTriple&) = default;
};

struct HeldExpert {
  bool is_warm = true;
  TypeTriple types;
  friend auto operator<=>(const HeldExpert&, const HeldExpert&) = default;
};

using HeldLayer = std::map<ExpertIndex, HeldExpert>;
using HeldModel = std::map<LayerIndex, HeldLayer>;

struct ProviderRecord {
  EndpointId public_key{};
  Version version;
  std::uint64_t wall_ms = 0;
  std::uint32_t ttl_s = 30;
  std::string name;
  std::string software;
  std::uint64_t features = 0;
  std::vector<std::string> addresses;
  std::string http_endpoint;  ///< empty: none
  std::uint32_t roles = 0;
  std::uint64_t price_per_input_token = 0;
  std::uint64_t minimum_price = 0;
  bool has_gpu = false;
  std::uint32_t profiles = 0;
  std::map<ModelId, HeldModel> models;
  std::optional<Hash32> manifest_root;
  /// Bytes of experts it would take to repair the replication; absent: it takes none.
  std::optional<std::uint64_t> repair_free_bytes;
  /// Models whose experts it would take although it holds none of them; "*" is every model.
  std::set<ModelId> repair_models;
  /// What the largest expert it holds of a model takes; of models in `models` only.
  std::map<ModelId, std::uint64_t> expert_bytes;
  friend bool operator==(const ProviderRecord&, const ProviderRecord&) = default;

  [[nodiscard]] std::size_t holdings() const;
};

/// The bytes to sign. Error: no_space, where the record would be larger than kRecordBytesMax.
[[nodiscard]] Result<std::vector<std::uint8_t>> encode_record(const ProviderRecord& record);
/// The bytes that were signed. Error: invalid_params.
[[nodiscard]] Result<ProviderRecord> decode_record(std::span<const std::uint8_t> body);

/// A sealed message, cut in two.
struct Sealed {
  std::span<const std::uint8_t> body;
  std::array<std::uint8_t, kSignatureBytes> signature{};
};

/// Nothing where the bytes are too short to be one.
[[nodiscard]] std::optional<Sealed> split_sealed(std::span<const std::uint8_t> bytes);

}  // namespace tenzro::wire
