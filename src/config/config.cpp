#include "tenzro/config/config.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/url.hpp"

#include "toml_characters.hpp"
#include "toml_reader.hpp"

namespace tenzro::config {
namespace {

constexpr Range kCount{1, 1'000'000};
constexpr Range kSeconds{1, 86'400};
constexpr Range kMilliseconds{1, 86'400'000};
constexpr std::uint64_t kPriceMax = std::numeric_limits<std::int64_t>::max();

void read_node(TomlReader& reader, NodeSection& node) {
  reader.section("node");
  reader.text("name", node.name);
  reader.text("data_dir", node.data_dir);
  reader.texts("roles", node.roles);
  reader.choice("log_level", node.log_level, {"trace", "debug", "info", "warn", "error"});
  reader.choice("log_format", node.log_format, {"text", "json"});
  constexpr std::string_view kRoles[] = {"auto",          "Replica", "Router", "ExpertHolder",
                                         "PrefillDecode", "Prefill", "Decode", "PipelineStage"};
  for (const std::string& role : node.roles) {
    if (std::find(std::begin(kRoles), std::end(kRoles), role) == std::end(kRoles)) {
      reader.refuse("roles", "unknown role '" + echo(role) + "'");
    }
  }
}

void read_rpc(TomlReader& reader, RpcSection& rpc) {
  reader.section("rpc");
  reader.text("listen", rpc.listen);
  reader.size("max_body_bytes", rpc.max_body_bytes, nullptr);
  if (rpc.max_body_bytes < 1024 || rpc.max_body_bytes > (4ULL << 30U)) {
    reader.refuse("max_body_bytes", "must be from 1 KiB to 4 GiB");
  }
  reader.size("max_answers_bytes", rpc.max_answers_bytes, nullptr);
  if (rpc.max_answers_bytes < (1ULL << 20U) || rpc.max_answers_bytes > (1ULL << 40U)) {
    reader.refuse("max_answers_bytes", "must be from 1 MiB to 1 TiB");
  }
  reader.integer("max_batch", rpc.max_batch, {1, 10'000});
  reader.texts("allowed_hosts", rpc.allowed_hosts);
  reader.text("tokens_file", rpc.tokens_file);
  reader.text("tls_cert", rpc.tls_cert);
  reader.text("tls_key", rpc.tls_key);
  if (rpc.tls_cert.empty() != rpc.tls_key.empty()) {
    reader.refuse(rpc.tls_cert.empty() ? "tls_key" : "tls_cert",
                  "tls_cert and tls_key go together");
  }
}

void read_mesh(TomlReader& reader, Config& config) {
  reader.section("quic");
  reader.text("listen", config.quic.listen);
  reader.text("advertise", config.quic.advertise);
  reader.section("http");
  reader.text("advertise", config.http.advertise);
  if (!config.http.advertise.empty() && !config.http.advertise.starts_with("http://") &&
      !config.http.advertise.starts_with("https://")) {
    reader.refuse("advertise", "must be http://host:port or https://host:port");
  }
  reader.section("gossip");
  reader.texts("bootstrap", config.gossip.bootstrap);
  reader.integer("heartbeat_s", config.gossip.heartbeat_s, kSeconds);
  reader.integer("ttl_s", config.gossip.ttl_s, kSeconds);
  reader.integer("fanout", config.gossip.fanout, {1, 64});
  reader.texts("allow", config.gossip.allow);
  reader.texts("deny", config.gossip.deny);
  if (config.gossip.ttl_s <= config.gossip.heartbeat_s) {
    reader.refuse("ttl_s", "must be longer than heartbeat_s");
  }
}

void read_holder(TomlReader& reader, HolderSection& holder) {
  reader.section("holder");
  bool automatic = false;
  constexpr std::uint64_t kAbsent = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t budget = kAbsent;
  reader.size("memory_budget", budget, &automatic);
  if (budget == 0) reader.refuse("memory_budget", "must be at least one byte");
  if (budget != kAbsent) holder.memory_budget = budget;
  reader.text("disk_dir", holder.disk_dir);
  reader.size("disk_budget", holder.disk_budget, nullptr);
  reader.size("receive_rate", holder.receive_rate, nullptr);
  reader.size("send_rate", holder.send_rate, nullptr);
  reader.integer("queue_max", holder.queue_max, {1, 65'536});
  reader.integer64("price_per_input_token", holder.price_per_input_token, {0, kPriceMax});
  reader.integer64("minimum_price", holder.minimum_price, {0, kPriceMax});
  reader.choice("execute", holder.execute, {"mesh", "open", "allowlist", "token"});
  reader.choice("verify", holder.verify, {"first", "always"});
}

void read_compute(TomlReader& reader, Config& config) {
  reader.section("compute");
  reader.choice("backend", config.compute.backend, {"auto", "cpu", "cuda", "wgsl"});
  reader.integer("threads", config.compute.threads, {0, 1024});
  reader.choice("profile", config.compute.profile, {"exact", "fast"});
  reader.section("forward");
  reader.integer("deadline_ms", config.forward.deadline_ms, kMilliseconds);
  reader.integer("attempt_timeout_ms", config.forward.attempt_timeout_ms, kMilliseconds);
  reader.boolean("hedge", config.forward.hedge);
  reader.integer("max_replans", config.forward.max_replans, {0, 16});
  reader.choice("carrier", config.forward.carrier, {"auto", "dense", "q8"});
  reader.fraction("min_kept_mass", config.forward.min_kept_mass);
}

void check_models(TomlReader& reader, const std::vector<std::string>& models) {
  constexpr std::size_t kModelsMax = 64;  // as a provider record holds
  if (models.size() > kModelsMax) reader.refuse("models", "names more than 64 models");
  for (const std::string& model : models) {
    if (model.empty() || model.size() > kModelIdBytesMax || !is_valid_utf8(model))
      reader.refuse("models", "'" + echo(model) + "' is no model id");
  }
}

void read_duties(TomlReader& reader, Config& config) {
  reader.section("prepare");
  reader.text("hub_url", config.prepare.hub_url);
  reader.boolean("plain_http", config.prepare.plain_http);
  const auto hub = parse_url(config.prepare.hub_url);
  if (config.prepare.hub_url.empty()) {
    // no hub
  } else if (!hub) {
    reader.refuse("hub_url", "must be a URL like https://host/path: " + hub.error().message());
  } else if (hub->rest.find('?') != std::string_view::npos) {
    reader.refuse("hub_url", "must have no query");
  } else if (!hub->is_tls && !config.prepare.plain_http && !is_loopback_host(hub->host)) {
    reader.refuse("hub_url", "is http beyond this machine: use https, or set plain_http");
  }
  reader.integer("jobs_max", config.prepare.jobs_max, {1, 64});
  reader.integer("ranges_max", config.prepare.ranges_max, {1, 32});
  reader.section("policy");
  reader.integer("min_replication", config.policy.min_replication, {1, 1000});
  reader.integer("max_replication", config.policy.max_replication, {1, 1000});
  reader.integer("hot_threshold_tps", config.policy.hot_threshold_tps, kCount);
  if (config.policy.max_replication < config.policy.min_replication) {
    reader.refuse("max_replication", "must not be below min_replication");
  }
  reader.section("repair");
  reader.integer("interval_s", config.repair.interval_s, kSeconds);
  reader.integer("grace_s", config.repair.grace_s, {0, 604'800});
  reader.integer("max_admissions", config.repair.max_admissions, {0, 1000});
  reader.size("rate", config.repair.rate, nullptr);
  reader.size("held_max", config.repair.held_max, nullptr);
  reader.texts("models", config.repair.models);
  check_models(reader, config.repair.models);
  reader.section("receipts");
  reader.integer("sample_one_in", config.receipts.sample_one_in, {0, 1'000'000});
  reader.integer("keep_days", config.receipts.keep_days, {1, 36'500});
  reader.section("metrics");
  reader.boolean("enabled", config.metrics.enabled);
}

std::size_t line_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
}

}  // namespace

Result<Config> parse(std::string_view toml, std::string_view file) {
  if (toml.size() > kConfigBytesMax) {
    return fail(ErrorCode::invalid_params, std::string(file), "is larger than 1 MiB");
  }
  // What stands before a character that toml++ must not see may be the mistake that matters.
  const auto stray = find_stray_character(toml);
  const toml::parse_result document = toml::parse(toml.substr(0, stray.value_or(toml.size())));
  const std::size_t stray_line = line_at(toml, stray.value_or(toml.size()));
  if (!document && (!stray || document.error().source().begin.line < stray_line)) {
    const toml::parse_error& error = document.error();
    return fail(ErrorCode::invalid_params,
                std::string(file) + ":" + std::to_string(error.source().begin.line),
                "not TOML: " + echo(error.description()));
  }
  if (stray) {
    return fail(
        ErrorCode::invalid_params, std::string(file) + ":" + std::to_string(stray_line),
        "not TOML: a character beyond ASCII outside of strings and comments, or after a backslash");
  }
  Config config;
  TomlReader reader(document.table(), file);
  read_node(reader, config.node);
  read_rpc(reader, config.rpc);
  read_mesh(reader, config);
  read_holder(reader, config.holder);
  read_compute(reader, config);
  read_duties(reader, config);
  if (auto status = reader.finish(); !status) return tl::unexpected<Error>(status.error());
  return config;
}

}  // namespace tenzro::config
