#include "tenzro/config/config.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace tenzro::config {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string error_of(std::string_view toml) {
  const auto parsed = parse(toml, "t.toml");
  return parsed ? "" : parsed.error().message();
}

TEST(Config, EmptyFileGivesTheDocumentedDefaults) {
  const auto config = parse("", "t.toml");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->rpc.listen, "127.0.0.1:8545");
  EXPECT_EQ(config->quic.listen, "0.0.0.0:9001");
  EXPECT_EQ(config->rpc.max_body_bytes, 64ULL << 20U);
  EXPECT_EQ(config->rpc.max_answers_bytes, 1ULL << 30U);
  EXPECT_EQ(config->holder.memory_budget, std::nullopt);
  EXPECT_EQ(config->repair.interval_s, 120U);
}

TEST(Config, ShippedFileListsEveryKeyWithItsDefault) {
  const std::string text = read_file(std::string(TENZRO_CONFIGS) + "/tenzrod.toml");
  const auto shipped = parse(text, "tenzrod.toml");
  ASSERT_TRUE(shipped) << shipped.error().message();
  EXPECT_EQ(shipped->forward.min_kept_mass, Config{}.forward.min_kept_mass);
  EXPECT_EQ(shipped->gossip.ttl_s, Config{}.gossip.ttl_s);
  for (const char* key : {"name",
                          "data_dir",
                          "roles",
                          "log_level",
                          "log_format",
                          "listen",
                          "max_body_bytes",
                          "max_answers_bytes",
                          "max_batch",
                          "allowed_hosts",
                          "tokens_file",
                          "tls_cert",
                          "tls_key",
                          "advertise",
                          "bootstrap",
                          "heartbeat_s",
                          "ttl_s",
                          "fanout",
                          "allow",
                          "deny",
                          "memory_budget",
                          "disk_dir",
                          "disk_budget",
                          "receive_rate",
                          "send_rate",
                          "queue_max",
                          "price_per_input_token",
                          "minimum_price",
                          "execute",
                          "verify",
                          "backend",
                          "threads",
                          "profile",
                          "deadline_ms",
                          "attempt_timeout_ms",
                          "hedge",
                          "max_replans",
                          "carrier",
                          "min_kept_mass",
                          "hub_url",
                          "plain_http",
                          "jobs_max",
                          "ranges_max",
                          "min_replication",
                          "max_replication",
                          "hot_threshold_tps",
                          "interval_s",
                          "grace_s",
                          "max_admissions",
                          "rate",
                          "held_max",
                          "models",
                          "sample_one_in",
                          "keep_days",
                          "enabled"}) {
    EXPECT_NE(text.find(std::string("\n") + key + " = "), std::string::npos) << key;
  }
}

TEST(Config, EveryShippedConfigurationLoads) {
  std::size_t loaded = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TENZRO_CONFIGS)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".toml") || path.ends_with("/catalog.toml")) continue;
    const auto config = parse(read_file(path), path);
    EXPECT_TRUE(config) << config.error().message();
    ++loaded;
  }
  EXPECT_GE(loaded, 2U);
}

struct Refusal {
  const char* toml;
  const char* message;
};

class ConfigRefusal : public ::testing::TestWithParam<Refusal> {};

TEST_P(ConfigRefusal, NamesFileLineKeyAndReason) {
  EXPECT_EQ(error_of(GetParam().toml), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ConfigRefusal,
    ::testing::Values(
        Refusal{"[rpc]\nlisten = 8545\n", "t.toml:2: rpc.listen: must be a string"},
        Refusal{"[rpc]\nlisten_adress = \"x\"\n", "t.toml:2: rpc.listen_adress: unknown key"},
        Refusal{"[rcp]\nlisten = \"x\"\n", "t.toml:1: rcp: unknown section or key"},
        Refusal{"rpc = 3\n", "t.toml:1: rpc: must be a section, [rpc]"},
        Refusal{"[gossip]\nheartbeat_s = 0\n",
                "t.toml:2: gossip.heartbeat_s: must be an integer from 1 to 86400"},
        Refusal{"[gossip]\nheartbeat_s = 1.0\n",
                "t.toml:2: gossip.heartbeat_s: must be an integer from 1 to 86400"},
        Refusal{"[gossip]\nheartbeat_s = 30\n",
                "t.toml: gossip.ttl_s: must be longer than heartbeat_s"},
        Refusal{"[compute]\nprofile = \"quick\"\n",
                "t.toml:2: compute.profile: 'quick' is not one of: exact, fast"},
        Refusal{"[forward]\nmin_kept_mass = 1.5\n",
                "t.toml:2: forward.min_kept_mass: must be a number from 0 to 1"},
        Refusal{"[forward]\nmin_kept_mass = nan\n",
                "t.toml:2: forward.min_kept_mass: must be a number from 0 to 1"},
        Refusal{"[holder]\nmemory_budget = \"8GB\"\n",
                "t.toml:2: holder.memory_budget: must be a size: bytes, or text like \"8GiB\" (B, "
                "KiB, MiB, GiB), or "
                "\"auto\""},
        Refusal{"[holder]\nmemory_budget = 0\n",
                "t.toml:2: holder.memory_budget: must be at least one byte"},
        Refusal{"[prepare]\nhub_url = \"huggingface.co\"\n",
                "t.toml:2: prepare.hub_url: must be a URL like https://host/path: URL "
                "'huggingface.co' is not https:// or http://"},
        Refusal{"[prepare]\nhub_url = \"https://\"\n",
                "t.toml:2: prepare.hub_url: must be a URL like https://host/path: URL 'https://' "
                "names no host"},
        Refusal{"[prepare]\nhub_url = \"https://h:99999/\"\n",
                "t.toml:2: prepare.hub_url: must be a URL like https://host/path: URL "
                "'https://h:99999/' has no port that is one"},
        Refusal{"[prepare]\nhub_url = \"https://me:secret@h/\"\n",
                "t.toml:2: prepare.hub_url: must be a URL like https://host/path: the URL "
                "names a user"},
        Refusal{"[prepare]\nhub_url = \"https://h/?a=b\"\n",
                "t.toml:2: prepare.hub_url: must have no query"},
        Refusal{"[prepare]\nhub_url = \"http://127.0.0.1.example.org/\"\n",
                "t.toml:2: prepare.hub_url: is http beyond this machine: use https, or set "
                "plain_http"},
        Refusal{"[rpc]\ntls_cert = \"a.pem\"\n",
                "t.toml:2: rpc.tls_cert: tls_cert and tls_key go together"},
        Refusal{"[node]\nroles = [\"Boss\"]\n", "t.toml:2: node.roles: unknown role 'Boss'"},
        Refusal{"[node]\nroles = [1]\n", "t.toml:2: node.roles: must be a list of strings"},
        Refusal{"[repair]\nmodels = [\"\"]\n", "t.toml:2: repair.models: '' is no model id"},
        Refusal{"[node]\nname = \"a\\nb\"\n",
                "t.toml:2: node.name: must not contain control characters"}));

TEST(Config, BrokenTomlNamesTheLine) {
  EXPECT_TRUE(error_of("[rpc]\nlisten = \n").starts_with("t.toml:2: not TOML: "))
      << error_of("[rpc]\nlisten = \n");
}

TEST(Config, CharactersBeyondAsciiBelongIntoStringsAndComments) {
  const std::string name = "[node]\nname = ";
  for (const char* text :
       {"\"na\u00efve\" # \u00e9", "'\u00e9'", "\"\"\"\n\u00e9\"\"\"", "\"\\\"\u00e9\"",
        "[['a', # \u00e9\n'\u00e9'], {b.\"\u00e9\" = ['\u00e9', 1]}, []]"}) {
    const std::string error = error_of(name + text + "\n");
    EXPECT_EQ(error.find("beyond ASCII"), std::string::npos) << text << ": " << error;
  }
  for (const char* text :
       {"\u00e9", "b\"\u00e9\"", "\"a\"\u00e9", "\"\\\u00e9\"", "\"\"\"a\\\u00e9\"\"\"",
        "\"\"\"a\\\n  \u00e9\"\"\"", "[[1a['[\u00e9']]", "1=['\u00e9']", "{a = 1'\u00e9'}"}) {
    EXPECT_NE(error_of(name + text).find("beyond ASCII"), std::string::npos) << text;
  }
  EXPECT_TRUE(error_of(name + "\"a\n\u00e9").starts_with("t.toml:2: not TOML: "));
  EXPECT_TRUE(error_of("[rpc]\nlisten = \n# \u00e9\n").starts_with("t.toml:2: not TOML: "))
      << "the first mistake counts, and a comment is none";
  EXPECT_TRUE(parse("\xEF\xBB\xBF[node]\nname = \"a\"\n", "t.toml")) << "a byte order mark";
  EXPECT_TRUE(error_of("[rpc]\n\nl\u00efsten = 1").starts_with("t.toml:3: not TOML: "));
}

TEST(Config, SizesTakeBinaryUnitsOnly) {
  EXPECT_EQ(parse_size("1024"), 1024U);
  EXPECT_EQ(parse_size("8GiB"), 8ULL << 30U);
  EXPECT_EQ(parse_size("16 MiB"), 16ULL << 20U);
  EXPECT_EQ(parse_size("3B"), 3U);
  EXPECT_EQ(parse_size("8GB"), std::nullopt);
  EXPECT_EQ(parse_size("-1"), std::nullopt);
  EXPECT_EQ(parse_size("99999999999GiB"), std::nullopt);
  EXPECT_EQ(parse_size(""), std::nullopt);
}

}  // namespace
}  // namespace tenzro::config
