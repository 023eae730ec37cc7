#include "platform/unwind/call_frame_info.h"

#include <cstring>

namespace gleaner::platform {

using internal::UnwindRule;

namespace {

constexpr uint8_t kStackPointer = 7;  // DWARF's numbers
constexpr uint8_t kReturnAddress = 16;
constexpr size_t kRegisters = 17;

int SavedIndexOf(uint64_t number) {
  for (int i = 0; i < UnwindRule::kSavedCount; ++i) {
    if (UnwindRule::kDwarfNumbers[i] == number) return i;
  }
  return -1;
}

// --- Call frame information ---

// A position in the information of one segment. After it has reached the end or found something
// unknown, ok() is false and all further values read as 0.
class Cursor {
 public:
  Cursor(Range segment, Addr at) : segment_(segment), at_(at) { Bound(segment.end); }

  bool ok() const { return ok_; }
  Addr at() const { return at_; }
  bool AtEnd() const { return !ok_ || at_ >= end_; }
  // From now on, reading ends at `end`.
  void Bound(Addr end) {
    end_ = end;
    if (at_ < segment_.begin || end_ > segment_.end || at_ > end_) ok_ = false;
  }
  void Skip(uint64_t bytes) {
    if (!ok_ || bytes > end_ - at_) {
      ok_ = false;
    } else {
      at_ += bytes;
    }
  }
  void Fail() { ok_ = false; }

  template <class T>
  T Take() {
    T value{};
    const Addr from = at_;
    Skip(sizeof(T));
    if (ok_) memcpy(&value, PointerAt<const void>(from), sizeof(T));
    return value;
  }
  uint8_t Byte() { return Take<uint8_t>(); }
  uint64_t Unsigned() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint8_t byte = Byte();
      if (shift >= 64) Fail();
      if (!ok_) return 0;
      value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }
  int64_t Signed() {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const uint8_t byte = Byte();
      if (shift >= 64) Fail();
      if (!ok_) return 0;
      value |= uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if ((byte & 0x80) != 0) continue;
      if ((byte & 0x40) != 0 && shift < 64) value |= ~uint64_t{0} << shift;
      return static_cast<int64_t>(value);
    }
  }
  // A pointer in one of the encodings that GCC and clang use (DW_EH_PE_). `relative`: applies the
  // upper half of the encoding, which must be "absolute" or "relative to here".
  Addr Pointer(uint8_t encoding, bool relative) {
    const Addr here = at_;
    Addr value = 0;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = Take<uint64_t>();
        break;
      case 0x03:
        value = Take<uint32_t>();
        break;
      case 0x0b:
        value = static_cast<Addr>(int64_t{Take<int32_t>()});
        break;
      default:
        Fail();
    }
    if (!relative || (encoding & 0x70) == 0) return value;
    if ((encoding & 0xf0) != 0x10) Fail();
    return here + value;
  }

 private:
  const Range segment_;
  Addr at_;
  Addr end_ = 0;
  bool ok_ = true;
};

struct CommonInfo {
  uint64_t code_align = 1;
  int64_t data_align = 1;
  uint8_t pointer_encoding = 0;
  bool augmented = false;
  bool signal = false;
  Addr instructions = 0;
  Addr end = 0;
};

// Reads the length of the entry at the cursor. Returns the entry's end.
Addr TakeEntryEnd(Cursor* cursor) {
  const uint32_t length = cursor->Take<uint32_t>();
  if (length == 0 || length >= 0xfffffff0u) cursor->Fail();
  return cursor->at() + length;
}

bool ReadCommonInfo(Range segment, Addr at, CommonInfo* info) {
  Cursor cursor(segment, at);
  info->end = TakeEntryEnd(&cursor);
  cursor.Bound(info->end);
  if (cursor.Take<uint32_t>() != 0) return false;
  const uint8_t version = cursor.Byte();
  if (version != 1 && version != 3) return false;
  char augmentation[8] = {};
  size_t letters = 0;
  for (char c; (c = static_cast<char>(cursor.Byte())) != 0;) {
    if (letters == sizeof augmentation - 1) return false;
    augmentation[letters++] = c;
  }
  info->code_align = cursor.Unsigned();
  info->data_align = cursor.Signed();
  const uint64_t return_register = version == 1 ? cursor.Byte() : cursor.Unsigned();
  if (return_register != kReturnAddress) return false;
  if (augmentation[0] == 'z') {
    info->augmented = true;
    const uint64_t bytes = cursor.Unsigned();
    info->instructions = cursor.at() + bytes;
    for (size_t i = 1; i < letters; ++i) {
      switch (augmentation[i]) {
        case 'R':
          info->pointer_encoding = cursor.Byte();
          break;
        case 'P': {
          const uint8_t encoding = cursor.Byte();
          (void)cursor.Pointer(encoding, false);
          break;
        }
        case 'L':
          (void)cursor.Byte();
          break;
        case 'S':
          info->signal = true;
          break;
        default:
          return false;
      }
    }
  } else if (letters == 0) {
    info->instructions = cursor.at();
  } else {
    return false;
  }
  return cursor.ok();
}

// How to find the caller's value of a register.
struct RegisterRule {
  enum Kind : uint8_t { kSame, kUndefined, kAtCfa, kAtRegister, kOther };
  Kind kind = kSame;
  uint8_t base = 0;    // kAtRegister
  int64_t offset = 0;  // kAtCfa, kAtRegister
};

// A row of the table that the instructions describe.
struct Row {
  enum CfaKind : uint8_t { kUnset, kRegister, kRegisterDeref, kUnknown };
  CfaKind cfa_kind = kUnset;
  uint64_t cfa_register = 0;
  int64_t cfa_offset = 0;
  RegisterRule registers[kRegisters];
};

class RowMachine {
 public:
  RowMachine(Range segment, const CommonInfo& info) : segment_(segment), info_(info) {}

  // Executes instructions in [begin, end) up to the row for `pc`. False for an unknown instruction.
  bool Run(Addr begin, Addr end, Addr location, Addr pc) {
    Cursor cursor(segment_, begin);
    cursor.Bound(end);
    while (!cursor.AtEnd() && location <= pc) {
      if (!Step(&cursor, &location)) return false;
    }
    return cursor.ok();
  }
  // Called after the common information's instructions: "restore" goes back to this row.
  void KeepInitial() { initial_ = row; }

  Row row;

 private:
  RegisterRule* Of(uint64_t number) {
    return number < kRegisters ? &row.registers[number] : &ignored_;
  }
  bool Step(Cursor* cursor, Addr* location);
  // Reads an expression of the form "a register plus an offset", and perhaps "the word there".
  bool TakeExpression(Cursor* cursor, uint64_t* number, int64_t* offset, bool* deref);

  static constexpr size_t kMaxRemembered = 4;
  const Range segment_;
  const CommonInfo& info_;
  Row initial_;
  RegisterRule ignored_;  // stands for all registers that are not tracked
  Row remembered_[kMaxRemembered];
  size_t depth_ = 0;
};

bool RowMachine::TakeExpression(Cursor* cursor, uint64_t* number, int64_t* offset, bool* deref) {
  const uint64_t bytes = cursor->Unsigned();
  const Addr begin = cursor->at();
  cursor->Skip(bytes);
  if (!cursor->ok()) return false;
  Cursor inner(segment_, begin);
  inner.Bound(begin + bytes);
  const uint8_t operation = inner.Byte();
  if (operation < 0x70 || operation > 0x8f) return false;  // DW_OP_breg0 to 31
  *number = operation - 0x70u;
  *offset = inner.Signed();
  *deref = !inner.AtEnd();
  return inner.ok() && (!*deref || (inner.Byte() == 0x06 && inner.AtEnd()));  // DW_OP_deref
}

// Executes one instruction.
bool RowMachine::Step(Cursor* cursor, Addr* location) {
  const uint8_t opcode = cursor->Byte();
  const uint8_t low = opcode & 0x3f;
  switch (opcode & 0xc0) {
    case 0x40:  // advance_loc
      *location += low * info_.code_align;
      return true;
    case 0x80:  // offset
      *Of(low) = {RegisterRule::kAtCfa, 0,
                  static_cast<int64_t>(cursor->Unsigned()) * info_.data_align};
      return true;
    case 0xc0:  // restore
      *Of(low) = low < kRegisters ? initial_.registers[low] : RegisterRule{};
      return true;
    default:
      break;
  }
  uint64_t number;
  switch (opcode) {
    case 0x00:  // nop
      return true;
    case 0x01:  // set_loc
      *location = cursor->Pointer(info_.pointer_encoding, true);
      return true;
    case 0x02:  // advance_loc1, 2, 4
      *location += cursor->Take<uint8_t>() * info_.code_align;
      return true;
    case 0x03:
      *location += cursor->Take<uint16_t>() * info_.code_align;
      return true;
    case 0x04:
      *location += cursor->Take<uint32_t>() * info_.code_align;
      return true;
    case 0x05:  // offset_extended
      number = cursor->Unsigned();
      *Of(number) = {RegisterRule::kAtCfa, 0,
                     static_cast<int64_t>(cursor->Unsigned()) * info_.data_align};
      return true;
    case 0x06:  // restore_extended
      number = cursor->Unsigned();
      *Of(number) = number < kRegisters ? initial_.registers[number] : RegisterRule{};
      return true;
    case 0x07:  // undefined
      *Of(cursor->Unsigned()) = {RegisterRule::kUndefined};
      return true;
    case 0x08:  // same_value
      *Of(cursor->Unsigned()) = {RegisterRule::kSame};
      return true;
    case 0x09:  // register
      number = cursor->Unsigned();
      (void)cursor->Unsigned();
      *Of(number) = {RegisterRule::kOther};
      return true;
    case 0x0a:  // remember_state
      if (depth_ == kMaxRemembered) return false;
      remembered_[depth_++] = row;
      return true;
    case 0x0b:  // restore_state
      if (depth_ == 0) return false;
      row = remembered_[--depth_];
      return true;
    case 0x0c:  // def_cfa
      row.cfa_kind = Row::kRegister;
      row.cfa_register = cursor->Unsigned();
      row.cfa_offset = static_cast<int64_t>(cursor->Unsigned());
      return true;
    case 0x0d:  // def_cfa_register
      row.cfa_kind = Row::kRegister;
      row.cfa_register = cursor->Unsigned();
      return true;
    case 0x0e:  // def_cfa_offset
      row.cfa_offset = static_cast<int64_t>(cursor->Unsigned());
      return true;
    case 0x0f: {  // def_cfa_expression
      bool deref = false;
      const bool known =
          TakeExpression(cursor, &row.cfa_register, &row.cfa_offset, &deref) && cursor->ok();
      row.cfa_kind = known ? (deref ? Row::kRegisterDeref : Row::kRegister) : Row::kUnknown;
      return cursor->ok();
    }
    case 0x10: {  // expression
      number = cursor->Unsigned();
      RegisterRule rule{RegisterRule::kAtRegister};
      uint64_t base = 0;
      bool deref = false;
      if (!TakeExpression(cursor, &base, &rule.offset, &deref) || deref || base >= kRegisters) {
        rule.kind = RegisterRule::kOther;
      }
      rule.base = static_cast<uint8_t>(base);
      *Of(number) = rule;
      return cursor->ok();
    }
    case 0x11:  // offset_extended_sf
      number = cursor->Unsigned();
      *Of(number) = {RegisterRule::kAtCfa, 0, cursor->Signed() * info_.data_align};
      return true;
    case 0x12:  // def_cfa_sf
      row.cfa_kind = Row::kRegister;
      row.cfa_register = cursor->Unsigned();
      row.cfa_offset = cursor->Signed() * info_.data_align;
      return true;
    case 0x13:  // def_cfa_offset_sf
      row.cfa_offset = cursor->Signed() * info_.data_align;
      return true;
    case 0x14:  // val_offset, val_offset_sf
    case 0x15:
      number = cursor->Unsigned();
      (void)cursor->Unsigned();
      *Of(number) = {RegisterRule::kOther};
      return true;
    case 0x16:  // val_expression
      number = cursor->Unsigned();
      cursor->Skip(cursor->Unsigned());
      *Of(number) = {RegisterRule::kOther};
      return true;
    case 0x2e:  // GNU_args_size
      (void)cursor->Unsigned();
      return true;
    default:
      return false;
  }
}

// The row as a rule; kNone if UnwindRule cannot express it.
UnwindRule Compress(const Row& row) {
  UnwindRule rule;
  const RegisterRule& ret = row.registers[kReturnAddress];
  if (ret.kind == RegisterRule::kUndefined) {
    rule.kind = UnwindRule::kOutermost;
    return rule;
  }
  if (ret.kind != RegisterRule::kAtCfa || ret.offset != -static_cast<int64_t>(kWordBytes)) {
    return rule;
  }
  const bool deref = row.cfa_kind == Row::kRegisterDeref;
  if (!deref && row.cfa_kind != Row::kRegister) return rule;
  const int base = SavedIndexOf(row.cfa_register);
  if (base < 0 && row.cfa_register != kStackPointer) return rule;
  if (row.cfa_offset % 8 != 0 || row.cfa_offset > UnwindRule::kMaxOffset ||
      row.cfa_offset < -UnwindRule::kMaxOffset) {
    return rule;
  }
  rule.kind = deref ? UnwindRule::kDeref : UnwindRule::kOffset;
  rule.base = static_cast<uint8_t>(base + 1);
  rule.offset = static_cast<int32_t>(row.cfa_offset);
  for (int i = 0; i < UnwindRule::kSavedCount; ++i) {
    const RegisterRule& saved = row.registers[UnwindRule::kDwarfNumbers[i]];
    if (saved.kind == RegisterRule::kSame) continue;
    rule.saved[i] = UnwindRule::kLost;
    int64_t words = 0;
    if (saved.kind == RegisterRule::kAtCfa && !deref) {
      words = -saved.offset / 8;
    } else if (saved.kind == RegisterRule::kAtRegister && deref && saved.base == row.cfa_register) {
      words = 2 - saved.offset / 8;
    }
    if (saved.offset % 8 == 0 && words >= 2 && words <= UnwindRule::kMaxSaved) {
      rule.saved[i] = static_cast<uint8_t>(words);
    }
  }
  return rule;
}

}  // namespace

namespace internal {

uint64_t UnwindRule::Pack() const {
  uint64_t word = kind | uint64_t{base} << 3 |
                  (static_cast<uint64_t>(static_cast<int64_t>(offset / 8)) & 0x3fffff) << 6;
  for (int i = 0; i < kSavedCount; ++i) word |= uint64_t{saved[i]} << (28 + 6 * i);
  return word;
}

UnwindRule UnwindRule::Unpack(uint64_t word) {
  UnwindRule rule;
  rule.kind = static_cast<Kind>(word & 7);
  rule.base = word >> 3 & 7;
  rule.offset = static_cast<int32_t>(static_cast<int64_t>(word << 36) >> 42) * 8;
  for (int i = 0; i < kSavedCount; ++i) rule.saved[i] = word >> (28 + 6 * i) & 63;
  return rule;
}

UnwindRule FindUnwindRule(Range segment, Addr index, Addr pc) {
  // The index: a header, then sorted pairs of a function's begin and its entry's address, both
  // relative to the index.
  Cursor header(segment, index);
  const uint8_t version = header.Byte();
  const uint8_t frame_encoding = header.Byte();
  const uint8_t count_encoding = header.Byte();
  const uint8_t table_encoding = header.Byte();
  if (version != 1 || count_encoding != 0x03 || table_encoding != 0x3b) return {};
  (void)header.Pointer(frame_encoding, false);
  const size_t count = header.Take<uint32_t>();
  const Addr table = header.at();
  if (!header.ok() || count == 0 || count > (segment.end - table) / 8) return {};
  const auto begin_of = [table, index](size_t i) {
    int32_t value;
    memcpy(&value, PointerAt<const void>(table + 8 * i), sizeof value);
    return index + static_cast<Addr>(int64_t{value});
  };
  size_t low = 0;
  size_t high = count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (begin_of(middle) <= pc) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return {};
  int32_t entry_offset;
  memcpy(&entry_offset, PointerAt<const void>(table + 8 * (low - 1) + 4), sizeof entry_offset);

  Cursor entry(segment, index + static_cast<Addr>(int64_t{entry_offset}));
  const Addr end = TakeEntryEnd(&entry);
  entry.Bound(end);
  const Addr here = entry.at();
  const uint32_t back = entry.Take<uint32_t>();
  CommonInfo info;
  if (!entry.ok() || back == 0 || !ReadCommonInfo(segment, here - back, &info)) return {};
  const Addr function = entry.Pointer(info.pointer_encoding, true);
  const Addr bytes = entry.Pointer(info.pointer_encoding, false);
  if (info.augmented) entry.Skip(entry.Unsigned());
  if (!entry.ok() || pc - function >= bytes) return {};
  if (info.signal) {
    UnwindRule rule;
    rule.kind = UnwindRule::kSignal;
    return rule;
  }
  RowMachine machine(segment, info);
  if (!machine.Run(info.instructions, info.end, 0, ~Addr{0})) return {};
  machine.KeepInitial();
  if (!machine.Run(entry.at(), end, function, pc)) return {};
  return Compress(machine.row);
}

}  // namespace internal

}  // namespace gleaner::platform
