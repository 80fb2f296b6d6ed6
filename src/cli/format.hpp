#pragma once
/// \file
/// Values as a person reads them.
#include <cstdint>
#include <string>
#include <string_view>

namespace tenzro::cli {

/// Control characters escaped as \xNN: what a node says must not drive the terminal.
[[nodiscard]] std::string printable(std::string_view text);
/// `512 B`, `1.5 KiB`, `8.0 GiB`.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
/// `850 us`, `12.3 ms`, `4.56 s`.
[[nodiscard]] std::string microseconds_text(std::uint64_t us);
/// `850 ns`, then as microseconds_text.
[[nodiscard]] std::string nanoseconds_text(std::uint64_t ns);
/// `97.3 %`: `part` of `whole`; `-` where the whole is nothing.
[[nodiscard]] std::string percent_text(std::uint64_t part, std::uint64_t whole);
/// `97.3 % of 1000 found in memory`
[[nodiscard]] std::string hit_rate_text(std::uint64_t hits, std::uint64_t misses);
/// `42s`, `3m 20s`, `5h 7m`, `2d 3h`.
[[nodiscard]] std::string uptime_text(std::uint64_t seconds);
/// The first characters of a long id, `..` behind them; a short one as it is.
[[nodiscard]] std::string short_id(std::string_view id);

}  // namespace tenzro::cli
