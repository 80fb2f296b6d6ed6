#pragma once
/// \file
/// SourceReader: bytes of a checkpoint's files, from a folder or from a web server.
///
/// A read is answered once, through take_done. Of a remote file only what is asked for is fetched,
/// in ranges of `range_bytes`, at most `ranges_max` at a time. Rules
///  - What came of a range that broke off stays; the rest is asked for again, after a pause that
///  doubles with each failure that gave nothing and has a random half. After `failures_max` of
///  these the read ends; they count from anew when 64 KiB came at once, or all of the range. A
///  range that was broken off because it came too slowly counts as a failure.
///  - 429 and 503 stop all requests for as long as the server says and, after that, for such a
///  pause, which grows whether or not the server says; they are no failures, but after `patience`
///  of nothing else the read ends. A server that says beforehand that its limit is used up is left
///  alone until it is renewed.
///  - A redirect is followed, at most `redirects_max` in a row, never from https to http, and is
///  remembered for the file's next ranges until what it leads to refuses. The hub's token goes to
///  the hub's origin alone.
///  - The size and version (ETag, else date) that a file has at first it must keep, so that no
///  expert is made of two files.
///  - All files are of the commit that the server names first (X-Repo-Commit): where the address
///  has a hub's form they are asked for at that commit from then on, so that whoever changes the
///  repository changes nothing for the reader. A file that is said to be of another commit all the
///  same is read only where it has the size and the strong ETag that it had before.
///  - 401, 403, 404 and whatever else a second attempt would not change end the read at once.
/// Thread: the owner's only. Pure.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/prepare/jobs.hpp"

#include "source_address.hpp"

namespace tenzro::prepare {

enum class ReadId : std::uint64_t {};

struct SourceRead {
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  /// Fewer bytes than asked for are an error unless this is set (then: what there is).
  bool allow_short = false;
};

struct SourceBytes {
  BufferRef bytes;
  std::uint64_t file_bytes = 0;
};

struct ReadDone {
  ReadId id{};
  Result<SourceBytes> bytes;
};

/// What tells a file from one that took its place.
struct FileVersion {
  std::uint64_t file_bytes = 0;
  std::string version;
  std::string commit = {};  ///< of the repository; empty where the server names none
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

using FileVersions = std::map<std::string, FileVersion, std::less<>>;

class SourceReader {
 public:
  SourceReader(SourceAddress address, const SourceOptions& options, work::JobIds& jobs,
               work::CallIds& calls, Prng& prng);

  [[nodiscard]] const SourceAddress& address() const { return address_; }

  [[nodiscard]] const FileVersions& versions() const { return versions_; }

  /// Of an earlier life of the job.
  void expect(FileVersions versions);

  ReadId read(Instant now, SourceRead read, Outbox& out);
  /// False where it is none of this one's.
  bool on_store_done(JobId job, const work::StoreResult& result);
  bool on_downloaded(Instant now, PeerCallId call, const work::Downloaded& downloaded, Outbox& out);

  void on_tick(Instant now, Outbox& out) { pump(now, out); }

  [[nodiscard]] std::optional<Instant> next_deadline() const;
  /// Everything that is not done is not wanted any more.
  void stop(Outbox& out);
  /// What was done since the last time, in order.
  [[nodiscard]] std::vector<ReadDone> take_done();

  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

  /// Until when the server wants to be left alone, if it does.
  [[nodiscard]] std::optional<Instant> rate_limited_until(Instant now) const;

 private:
  struct Reading {
    SourceRead what;
    BufferRef buffer;  ///< empty until the file's size is known
    std::byte* data = nullptr;
    std::uint64_t missing = 0;
  };

  struct Piece {
    ReadId read{};
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    /// Of the first piece of a file whose size is not known.
    BufferRef probe = {};
    std::byte* probe_data = nullptr;
    std::size_t failures = 0;
    std::size_t redirects = 0;
    Instant not_before = {};
  };

  struct Flight {
    Piece piece;
    std::string url;
    bool was_moved = false;  ///< it is where a redirect led
  };

  // Local files.
  void read_local(ReadId id, const SourceRead& read, Outbox& out);

  // Remote ones.
  void open_reading(ReadId id, Outbox& out);
  void on_probe(const Piece& piece, const work::Downloaded& downloaded, Outbox& out);
  void pump(Instant now, Outbox& out);
  void send(Piece piece, Outbox& out);
  void take_reply(Instant now, Flight flight, const work::Downloaded& downloaded, Outbox& out);
  void on_bytes(Instant now, Piece piece, const work::Downloaded& downloaded, Outbox& out);
  void on_redirect(Flight flight, const work::Downloaded& downloaded, Outbox& out);
  void on_refusal(Instant now, Flight flight, const work::Downloaded& downloaded, Outbox& out);
  void on_rate_limit(Instant now, Piece piece, const work::Downloaded& downloaded, Outbox& out);
  void on_failure(Instant now, Piece piece, const std::string& why, Outbox& out);
  [[nodiscard]] Status check_version(const std::string& file, FileVersion version);
  [[nodiscard]] Status check_commit(const std::string& file, const std::string& commit);
  void keep_to(const std::string& commit, const std::string& file);
  [[nodiscard]] std::string url_of(const std::string& file) const;
  [[nodiscard]] work::Credential credential_for(const std::string& url) const;
  [[nodiscard]] Duration pause(std::size_t failures);
  void leave_alone(Instant now, Duration wait);
  void finish(ReadId id, Result<SourceBytes> bytes);
  void fail_read(ReadId id, ErrorCode code, const std::string& why, Outbox& out);

  SourceAddress address_;
  SourceOptions options_;
  work::JobIds& jobs_;
  work::CallIds& calls_;
  Prng& prng_;
  std::string hub_origin_;
  FileVersions versions_;
  std::string commit_;                                        ///< of the repository
  std::string commit_file_;                                   ///< which told it
  std::optional<SourceAddress> pinned_;                       ///< the address at that commit
  std::map<std::string, std::string, std::less<>> doubtful_;  ///< file -> the other one it is of
  std::map<std::string, std::string, std::less<>> moved_to_;  ///< file -> where a redirect led
  std::map<ReadId, Reading> readings_;
  std::map<JobId, ReadId> local_;
  std::deque<Piece> queue_;
  std::map<PeerCallId, Flight> flights_;  // ordered: iteration reaches the outbox
  Instant paused_until_{};
  bool is_rate_limited_ = false;  ///< why it is paused
  std::size_t refusals_ = 0;      ///< in a row
  std::optional<Instant> refused_since_;
  std::vector<ReadDone> done_;
  std::uint64_t last_read_ = 0;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace tenzro::prepare
