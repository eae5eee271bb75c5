// Segment: shared memory that is written once and can then never be changed by anybody.
//
//   NPUBANK_ASSIGN_OR_RETURN(auto segment, Segment::Create("layers.0.wq"));
//   NPUBANK_RETURN_IF_ERROR(segment->Write(0, bytes));
//   NPUBANK_RETURN_IF_ERROR(segment->Seal(AlignUp(bytes.size(), Segment::kPage)));
//   NPUBANK_ASSIGN_OR_RETURN(FileDescriptor theirs, segment->OpenForReading());  // for one process
//
// A memfd: memory that belongs to whoever has its descriptor, and goes back to the system with the
// last one. Small parts are written with Write; all of a large tensor through MapToWrite, in huge
// pages, which costs a third of it. Then it is sealed against growing, shrinking, writing and further
// seals, which the system refuses while anybody could still write. From then on this process too holds
// a read-only descriptor of it and none that may write, and reads with pread only: a receiver can
// move offsets, take locks and change the mode of what it was given, and disturbs nobody with it.
//
// Ownership: shared; the descriptor's number stays the same from Create to the end. Threads: Read
// and MemoryBytes from any at any time; Write and GiveBack from any, before Seal and on ranges that
// do not overlap; Seal once, when they have returned and what was mapped to be written is gone.
// Errors: ResourceExhausted when the system has no memory, or no descriptor, to give; Unavailable
// with its words otherwise. Cost: Seal 2-3 ms per GiB, OpenForReading 8 us.
#ifndef NPUBANK_BANK_SERVICE_SEGMENT_H_
#define NPUBANK_BANK_SERVICE_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "npubank/bank/service/aligned_mapping.h"
#include "npubank/lazy_tensor/base/files/file_descriptor.h"
#include "npubank/lazy_tensor/base/mutex.h"

namespace npubank::service {

class Segment {
 public:
  static constexpr uint64_t kPage = 4096;
  static constexpr int kMostSpares = 1024;
  ~Segment();

  // `name` is for errors and for who looks at the process from outside.
  static absl::StatusOr<std::shared_ptr<Segment>> Create(absl::string_view name);
  // Takes over what an earlier process sealed. InvalidArgument for what is no memfd with all the
  // seals, whose size is no multiple of kPage, or that cannot be read.
  static absl::StatusOr<std::shared_ptr<Segment>> Adopt(FileDescriptor file,
                                                        absl::string_view name);

  absl::Status Write(uint64_t offset, absl::Span<const std::byte> bytes);
  // All its memory at once, `bytes` of it, in huge pages if it should and the system has them: every page is
  // there, so that none is missing when it is touched.
  absl::StatusOr<AlignedMapping> MapToWrite(uint64_t bytes, bool huge_pages);
  // Returns the memory of whole pages that were written, and are not wanted any more.
  absl::Status GiveBack(uint64_t offset, uint64_t bytes);
  // Makes it `bytes` long and unchangeable. After an error it can be tried again.
  absl::Status Seal(uint64_t bytes);

  // OutOfRange beyond the end.
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const;
  // A read-only descriptor of its own for one receiver, when it is sealed; FailedPrecondition before.
  // Where a receiver has taken away the right to open it again, one that shares its offset with
  // others: the bytes are the same.
  absl::StatusOr<FileDescriptor> OpenForReading() const;
  // Opens one for the next receiver, who then does not wait for it; kMostSpares of a process, and never needed.
  void PrepareForReading() const;
  // What it costs the system, as the system counts it.
  absl::StatusOr<uint64_t> MemoryBytes() const;

  const std::string& name() const { return name_; }
  // One number per segment of this process, never used again.
  uint64_t id() const { return id_; }
  int descriptor() const { return file_.get(); }
  bool sealed() const { return sealed_bytes_ > 0; }
  uint64_t sealed_bytes() const { return sealed_bytes_; }  // its length; 0 before it is sealed
  // Whether it was written in huge pages, as far as it fills any.
  bool in_huge_pages() const { return in_huge_pages_; }

 private:
  Segment(FileDescriptor file, absl::string_view name);

  const std::string name_;
  const uint64_t id_;
  FileDescriptor file_;
  std::atomic<uint64_t> sealed_bytes_ = 0;
  std::atomic<bool> in_huge_pages_ = false;
  mutable Mutex mutex_;
  mutable FileDescriptor spare_ ABSL_GUARDED_BY(mutex_);  // counted
};

}  // namespace npubank::service

#endif  // NPUBANK_BANK_SERVICE_SEGMENT_H_
