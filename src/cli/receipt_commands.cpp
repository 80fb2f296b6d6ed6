#include <array>
#include <ctime>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "files.hpp"
#include "format.hpp"
#include "table.hpp"

namespace tenzro::cli {
namespace {

/// Of their help: the node's side is to come.
constexpr const char* kNotYet = " (tenzrod " TENZRO_VERSION " does not serve this method yet)";
constexpr std::uint64_t kBundleBytesMax = 32ULL << 20U;

struct ListFlags {
  std::string model;
  std::optional<std::uint32_t> limit;
};

struct DisputeFlags {
  std::string key;
  std::string bundle_file;
};

/// Milliseconds since 1970 as a date in UTC.
std::string time_text(const Json& row) {
  const std::optional<std::uint64_t> ms = number(row, "stored_at_ms");
  if (!ms || *ms / 1000 > UINT32_MAX) return "-";
  const auto seconds = static_cast<std::time_t>(*ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> out{};
  const std::size_t size = std::strftime(out.data(), out.size(), "%Y-%m-%d %H:%M:%S", &utc);
  return {out.data(), size};
}

std::string show_receipts(const Json& result) {
  Table table({"STORED (UTC)", "LAYER", "EXPERT", "TOKENS", "PROVIDER", "COMMITMENT", "KEY"});
  for (const Json& row : list(result, "receipts")) {
    table.add({time_text(row), text(row, "layer"), text(row, "expert"), text(row, "tokens"),
               short_id(text(row, "provider")), short_id(text(row, "commitment")),
               text(row, "key")});
  }
  return table.empty() ? "no receipts\n" : table.render();
}

std::string show_dispute(const Json& result) {
  const Json& verification = member(result, "verification");
  Facts facts;
  facts.add("expert", text(result, "model_id") + " l" + text(result, "layer") + "/e" +
                          text(result, "expert"));
  facts.add("provider", text(result, "provider"));
  const Json& outcome = member(result, "outcome");
  facts.add("disputed", text(result, "disputed"));
  if (outcome.is_string()) facts.add("outcome", text(outcome));
  facts.add("rows passed",
            text(verification, "rows_passed") + " of " + text(verification, "rows_total"));
  if (is_true(result, "already_judged")) facts.add("note", "judged before; this is that outcome");
  return facts.render();
}

Outcome<Request> dispute_request(const DisputeFlags& flags) {
  Request request{.method = "tenzro_moeDisputeReceipt", .params = Json::object()};
  if (!flags.key.empty()) {
    request.params["key"] = flags.key;
    return request;
  }
  const Outcome<std::string> file = read_file(flags.bundle_file, kBundleBytesMax);
  if (!file) return failure(file.error());
  Json bundle = Json::parse(*file, nullptr, false);
  if (bundle.is_discarded()) return failure(ExitCode::usage, flags.bundle_file + ": not JSON");
  // Both the result of the export and the bundle inside it are taken.
  const Json& inner = member(bundle, "bundle");
  request.params["bundle"] = inner.is_null() ? bundle : inner;
  return request;
}

}  // namespace

void add_receipt_commands(CLI::App& moe, Selection& selection) {
  auto list_flags = std::make_shared<ListFlags>();
  CLI::App& receipts =
      *moe.add_subcommand("receipts", std::string("sampled receipts this node keeps") + kNotYet);
  receipts.add_option("--model-id", list_flags->model, "only this model's");
  receipts.add_option("--limit", list_flags->limit, "how many, newest (default 100, at most 1000)");
  receipts.callback([list_flags, &selection] {
    Json params = Json::object();
    if (!list_flags->model.empty()) params["model_id"] = list_flags->model;
    if (list_flags->limit) params["limit"] = *list_flags->limit;
    selection.command = call_of("tenzro_moeListReceipts", std::move(params), show_receipts);
  });

  auto flags = std::make_shared<DisputeFlags>();
  CLI::App& dispute = *moe.add_subcommand(
      "dispute", std::string("re-execute a receipt and judge its signer") + kNotYet);
  CLI::Option_group& source = *dispute.add_option_group("receipt", "which receipt");
  source.add_option("--key", flags->key, "key in this node's list");
  source.add_option("--bundle", flags->bundle_file, "file with a receipt exported elsewhere");
  source.require_option(1);
  dispute.callback([flags, &selection] {
    Command command;
    command.make_request = [flags](Node&) { return dispute_request(*flags); };
    command.show = show_dispute;
    selection.command = std::move(command);
  });
}

}  // namespace tenzro::cli
