#pragma once
/// \file
/// FetchWorld: a Fetches with sources and a store in memory, moved by hand. What a source answers
/// can be replaced call by call.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/crypto/blake3.hpp"
#include "tenzro/fetch/fetches.hpp"
#include "tenzro/wire/blob_message.hpp"

namespace tenzro::fetch {

struct FetchWorld {
  struct Partial {
    std::string bytes;
    std::vector<bool> there;
    bool is_open = true;
  };

  struct Peer {
    std::map<BlobHash, std::string> blobs;
    /// Given the request, the answer in place of the usual one.
    std::function<std::optional<work::CallResult>(const wire::BlobRequest&)> answer;
    bool is_silent = false;
    std::size_t ranges_asked = 0;
    std::size_t pending_max = 0;  ///< most ranges that were open at once
    std::size_t pending = 0;
  };

  struct SentCall {
    PeerCallId id{};
    EndpointId to{};
    wire::BlobRequest request;
  };

  explicit FetchWorld(Options options = small()) : fetches(options, calls, jobs) {}

  static Options small() {
    Options options;
    options.piece_bytes = 4;
    return options;
  }

  static EndpointId id_of(std::uint8_t number) {
    EndpointId id{};
    id.fill(number);
    return id;
  }

  static Source source(std::uint8_t number) { return {id_of(number), {"10.0.0.1:9001"}}; }

  static std::string text_of(std::size_t size, std::uint8_t salt = 0) {
    std::string text;
    for (std::size_t i = 0; i < size; ++i)
      text.push_back(static_cast<char>((i * 31 + i / 7 + salt) & 0xFFU));
    return text;
  }

  BlobHash give(std::initializer_list<std::uint8_t> numbers, const std::string& blob) {
    const BlobHash hash = crypto::blake3(blob);
    for (const std::uint8_t number : numbers) peers[id_of(number)].blobs[hash] = blob;
    return hash;
  }

  /// This peer has other bytes under that name.
  void forge(std::uint8_t number, const BlobHash& hash, std::string bytes) {
    peers[id_of(number)].blobs[hash] = std::move(bytes);
  }

  Status start(std::uint64_t waiter, const BlobHash& hash,
               std::initializer_list<std::uint8_t> numbers, std::uint64_t bytes_max = 0) {
    std::vector<Source> sources;
    for (const std::uint8_t number : numbers) sources.push_back(source(number));
    Outbox out;
    const Status status = fetches.start(now, RequestId{waiter}, hash, sources, bytes_max, out);
    take(std::move(out));
    return status;
  }

  void cancel(std::uint64_t waiter) {
    Outbox out;
    fetches.on_cancel(now, RequestId{waiter}, out);
    take(std::move(out));
  }

  void take(Outbox out) {
    for (Action& action : out) {
      if (auto* call = std::get_if<work::SendCall>(&action)) {
        const auto request = wire::decode_blob_request(call->request.at(0));
        sent.push_back({call->id, *call->target.id, *request});
        Peer& peer = peers[*call->target.id];
        if (request->length > 0) {
          ++peer.ranges_asked;
          peer.pending_max = std::max(peer.pending_max, ++peer.pending);
        }
      } else if (const auto* cancelled = std::get_if<work::CancelCall>(&action)) {
        std::erase_if(sent, [&](const SentCall& sent_call) {
          if (sent_call.id != cancelled->id) return false;
          if (sent_call.request.length > 0) --peers[sent_call.to].pending;
          return true;
        });
      } else if (auto* operation = std::get_if<work::Store>(&action)) {
        stored.push_back(std::move(*operation));
      } else if (auto* done = std::get_if<Finished>(&action)) {
        finished.push_back(std::move(*done));
      } else {
        liars.push_back(std::get<SourceLied>(action).source);
      }
    }
  }

  work::CallResult usual_answer(const SentCall& call) {
    Peer& peer = peers[call.to];
    if (peer.answer) {
      if (auto answer = peer.answer(call.request)) return std::move(*answer);
    }
    const auto blob = peer.blobs.find(call.request.hash);
    if (blob == peer.blobs.end()) return reply(call.to, wire::BlobStatus::not_found, 0, "");
    return reply(call.to, wire::BlobStatus::ok, blob->second.size(),
                 blob->second.substr(std::min(call.request.offset, blob->second.size()),
                                     call.request.length));
  }

  static work::CallResult reply(const EndpointId& from, wire::BlobStatus status, std::uint64_t size,
                                const std::string& bytes) {
    const BufferRef head = wire::encode_blob_head(status, size);
    return work::CallReply{from, BufferRef::copy_of(std::string(head.text()) + bytes)};
  }

  /// Answers one call of a peer that is not silent, or runs one store operation; false where there
  /// is neither.
  bool step() {
    if (!stored.empty()) {
      const work::Store operation = std::move(stored.front());
      stored.pop_front();
      Outbox out;
      fetches.on_store_done(now, operation.id, run(operation.op), out);
      take(std::move(out));
      return true;
    }
    const auto call = std::find_if(sent.begin(), sent.end(), [this](const SentCall& sent_call) {
      return !peers[sent_call.to].is_silent;
    });
    if (call == sent.end()) return false;
    const SentCall taken = *call;
    sent.erase(call);
    if (taken.request.length > 0) --peers[taken.to].pending;
    Outbox out;
    fetches.on_peer_reply(now, taken.id, usual_answer(taken), out);
    take(std::move(out));
    return true;
  }

  void settle() {
    while (step()) {
    }
  }

  /// Time goes on to the next deadline, and everything settles, until nothing is left to do.
  void run_out() {
    settle();
    for (int round = 0; round < 10'000; ++round) {
      const auto deadline = fetches.next_deadline();
      if (!deadline) return;
      now = std::max(now, *deadline);
      tick();
      settle();
    }
  }

  void tick() {
    Outbox out;
    fetches.on_tick(now, out);
    take(std::move(out));
  }

  work::StoreResult run(const work::StoreOp& op) {
    if (store_fault) {
      if (Status status = store_fault(op); !status) return fail(status.error());
    }
    if (const auto* open = std::get_if<work::OpenPartial>(&op)) return run_open(*open);
    if (const auto* write = std::get_if<work::WritePartial>(&op)) {
      Partial& partial = partials.at(write->hash);
      partial.bytes.replace(write->offset, write->bytes.size(), write->bytes.text());
      std::fill_n(partial.there.begin() + static_cast<std::ptrdiff_t>(write->offset),
                  write->bytes.size(), true);
      return work::WrittenPartial{crypto::blake3(write->bytes.bytes())};
    }
    if (const auto* finish = std::get_if<work::FinishPartial>(&op)) {
      const Partial& partial = partials.at(finish->hash);
      const bool is_intact = crypto::blake3(partial.bytes) == finish->hash;
      if (is_intact) {
        blobs[finish->hash] = partial.bytes;
        ++leases[finish->hash];
        partials.erase(finish->hash);
      }
      return work::FinishedPartial{is_intact};
    }
    if (const auto* close = std::get_if<work::ClosePartial>(&op)) {
      if (close->leftover == work::Leftover::removed) partials.erase(close->hash);
      if (partials.contains(close->hash)) partials.at(close->hash).is_open = false;
      return work::Saved{};
    }
    const auto& release = std::get<work::ReleaseBlob>(op);
    leases[release.hash] -= release.leases;
    return work::Removed{true};
  }

  work::StoreResult run_open(const work::OpenPartial& open) {
    if (blobs.contains(open.hash)) {
      ++leases[open.hash];
      return work::OpenedPartial{.is_complete = true};
    }
    Partial& partial = partials[open.hash];
    partial.is_open = true;
    partial.bytes.resize(open.size_bytes);
    partial.there.resize(open.size_bytes);
    work::OpenedPartial opened;
    for (std::uint64_t i = 0; i < open.size_bytes; ++i) {
      if (!partial.there[i]) continue;
      if (!opened.there.empty() && opened.there.back().end == i) {
        ++opened.there.back().end;
      } else {
        opened.there.push_back({i, i + 1});
      }
    }
    return opened;
  }

  work::CallIds calls;
  work::JobIds jobs;
  Fetches fetches;
  Instant now{std::chrono::seconds(100)};
  std::map<EndpointId, Peer> peers;
  std::deque<SentCall> sent;
  std::deque<work::Store> stored;
  std::function<Status(const work::StoreOp&)> store_fault;
  std::map<BlobHash, Partial> partials;
  std::map<BlobHash, std::string> blobs;
  std::map<BlobHash, std::uint32_t> leases;
  std::vector<Finished> finished;
  std::vector<EndpointId> liars;
};

}  // namespace tenzro::fetch
