package confine

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// keyCalls are the first and the last of the system calls add_key, request_key and keyctl, by the kernel's name of an architecture.
var keyCalls = []struct{ arch, first, last uint32 }{
	{unix.AUDIT_ARCH_X86_64, 248, 250}, {unix.AUDIT_ARCH_I386, 286, 288}, {unix.AUDIT_ARCH_AARCH64, 217, 219}, {unix.AUDIT_ARCH_ARM, 309, 311},
	{unix.AUDIT_ARCH_RISCV64, 217, 219}, {unix.AUDIT_ARCH_PPC64LE, 269, 271}, {unix.AUDIT_ARCH_S390X, 278, 280}, {unix.AUDIT_ARCH_LOONGARCH64, 217, 219},
}

// x32 marks the calls of x86-64's other ABI, which have the same numbers.
const x32 = 0x40000000

// keyringFilter answers the system calls for keys as a kernel without them does.
func keyringFilter() []unix.SockFilter {
	const load, and, equal = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	const atLeast, more, answer = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	const archAt, numberAt = 4, 0 // in struct seccomp_data
	var out []unix.SockFilter
	for _, calls := range keyCalls {
		out = append(out,
			unix.SockFilter{Code: load, K: archAt},
			unix.SockFilter{Code: equal, K: calls.arch, Jf: 6}, // else the next architecture
			unix.SockFilter{Code: load, K: numberAt},
			unix.SockFilter{Code: and, K: ^uint32(x32)},
			unix.SockFilter{Code: atLeast, K: calls.first, Jf: 1},
			unix.SockFilter{Code: more, K: calls.last, Jf: 1},
			unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW},
			unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		)
	}
	return append(out, unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW})
}

// withholdKeys keeps the thread, and what it starts, from the keyrings of the kernel: those of a user are the same in all namespaces that have
// the user's ID, and whoever links one to its session can read what is in it.
func withholdKeys() error {
	filter := keyringFilter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return errno
	}
	return nil
}
