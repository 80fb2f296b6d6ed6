#pragma once
/// \file
/// The configuration file: every key, its default, its limits.
///
/// TOML. Rules
///  - An unknown section or key, a wrong type, a value out of range: an error `FILE:LINE:
///  section.key: why`. Why so strict:
///    a misspelt limit that is silently ignored is found in production.
///  - Every key is optional; `configs/tenzrod.toml` lists all of them with their defaults, and a
///  test loads it.
///  - Sizes are bytes or text with B, KiB, MiB, GiB. Durations are integers >= 1 in the unit of the
///  key's name (`repair.grace_s` also 0: five intervals).
/// Relative paths are relative to the working directory of the daemon. Pure: text in, values out.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/result.hpp"

namespace tenzro::config {

struct NodeSection {
  std::string name;      ///< shown in status; empty: the start of the endpoint id
  std::string data_dir;  ///< empty: $XDG_STATE_HOME/tenzrod, else /var/lib/tenzrod
  /// "auto", or roles beyond those that follow from what is loaded.
  std::vector<std::string> roles{"auto"};
  std::string log_level = "info";   ///< trace, debug, info, warn, error
  std::string log_format = "text";  ///< text, json
};

struct RpcSection {
  std::string listen = "127.0.0.1:8545";
  std::uint64_t max_body_bytes = 64ULL << 20U;
  std::uint64_t max_answers_bytes = 1ULL << 30U;  ///< of all callers, until sent
  std::uint32_t max_batch = 100;
  std::vector<std::string> allowed_hosts;
  std::string tokens_file;
  std::string tls_cert;
  std::string tls_key;
};

struct QuicSection {
  std::string listen = "0.0.0.0:9001";
  std::string advertise;  ///< host:port, or "none"
};

struct HttpSection {
  std::string advertise;  ///< http://host:port or https://host:port
};

struct GossipSection {
  std::vector<std::string> bootstrap;  ///< "<endpoint_id>@host:port" or "host:port"
  std::uint32_t heartbeat_s = 10;
  std::uint32_t ttl_s = 30;
  std::uint32_t fanout = 4;
  std::vector<std::string> allow;
  std::vector<std::string> deny;
};

struct HolderSection {
  /// Absent: "auto", 60 % of what is available.
  std::optional<std::uint64_t> memory_budget;
  std::string disk_dir;            ///< empty: <data_dir>/blobs
  std::uint64_t disk_budget = 0;   ///< 0: no limit
  std::uint64_t receive_rate = 0;  ///< bytes of blobs a second from other nodes; 0: no limit
  std::uint64_t send_rate = 0;     ///< bytes of blobs a second to other nodes; 0: no limit
  std::uint32_t queue_max = 256;
  std::uint64_t price_per_input_token = 10;
  std::uint64_t minimum_price = 100;
  std::string execute = "mesh";  ///< mesh, open, allowlist, token
  std::string verify = "first";  ///< first, always
};

struct ComputeSection {
  std::string backend = "auto";   ///< auto, cpu, cuda, wgsl
  std::uint32_t threads = 0;      ///< 0: one a core
  std::string profile = "exact";  ///< exact, fast
};

struct ForwardSection {
  std::uint32_t deadline_ms = 30'000;
  std::uint32_t attempt_timeout_ms = 5'000;
  bool hedge = true;
  std::uint32_t max_replans = 2;
  std::string carrier = "auto";  ///< auto, dense, q8
  double min_kept_mass = 0.5;
};

struct PrepareSection {
  std::string hub_url = "https://huggingface.co";  ///< empty: none
  bool plain_http = false;
  std::uint32_t jobs_max = 4;
  std::uint32_t ranges_max = 4;
};

struct PolicySection {
  std::uint32_t min_replication = 2;
  std::uint32_t max_replication = 8;
  std::uint32_t hot_threshold_tps = 1000;
};

struct RepairSection {
  std::uint32_t interval_s = 120;
  std::uint32_t grace_s = 0;         ///< 0: five intervals
  std::uint32_t max_admissions = 2;  ///< a pass; 0: none
  std::uint64_t rate = 0;      ///< bytes of experts a second, instead of max_admissions; 0: off
  std::uint64_t held_max = 0;  ///< bytes of experts; 0: four times the memory budget
  std::vector<std::string> models;  ///< model ids, or "*"
};

struct ReceiptsSection {
  std::uint32_t sample_one_in = 64;
  std::uint32_t keep_days = 30;
};

struct MetricsSection {
  bool enabled = true;
};

struct Config {
  NodeSection node;
  RpcSection rpc;
  QuicSection quic;
  HttpSection http;
  GossipSection gossip;
  HolderSection holder;
  ComputeSection compute;
  ForwardSection forward;
  PrepareSection prepare;
  PolicySection policy;
  RepairSection repair;
  ReceiptsSection receipts;
  MetricsSection metrics;
};

inline constexpr std::size_t kConfigBytesMax = 1U << 20U;

/// `file` is the name that errors carry. Error code: invalid_params.
[[nodiscard]] Result<Config> parse(std::string_view toml, std::string_view file);

/// "8GiB", "1024", "16 MiB" -> bytes; nothing where it is not a size or does not fit.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);

}  // namespace tenzro::config
