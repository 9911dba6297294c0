package plugin

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"fmt"
	"io"
	"os"

	"github.com/rungci/rung/steps/source/oci"
)

// Architectures of programs, as Go names them.
var (
	elfArchitectures = map[elf.Machine]string{
		elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_ARM: "arm", elf.EM_386: "386", elf.EM_RISCV: "riscv64", elf.EM_S390: "s390x", elf.EM_PPC64: "ppc64le", elf.EM_LOONGARCH: "loong64",
	}
	machoArchitectures = map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}
	peArchitectures    = map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "amd64", pe.IMAGE_FILE_MACHINE_ARM64: "arm64", pe.IMAGE_FILE_MACHINE_I386: "386"}
)

// detect finds out from a program what platform it is for. A script is for every one.
func detect(file string) (oci.Platform, error) {
	f, err := os.Open(file)
	if err != nil {
		return oci.Platform{}, err
	}
	defer f.Close()
	head := make([]byte, 4)
	if _, err := io.ReadFull(f, head); err != nil {
		return oci.Platform{}, fmt.Errorf("%s is not a program: it has less than %d bytes", file, len(head))
	}
	system, arch := "", ""
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		return oci.Generic, nil
	case bytes.Equal(head, []byte(elf.ELFMAG)):
		if e, err := elf.NewFile(f); err == nil {
			if system, arch = "linux", elfArchitectures[e.Machine]; e.OSABI == elf.ELFOSABI_FREEBSD {
				system = "freebsd"
			}
		}
	case bytes.HasPrefix(head, []byte("MZ")):
		if e, err := pe.NewFile(f); err == nil {
			system, arch = "windows", peArchitectures[e.Machine]
		}
	default:
		if e, err := macho.NewFile(f); err == nil {
			system, arch = "darwin", machoArchitectures[e.Cpu]
		}
	}
	if arch == "" {
		return oci.Platform{}, fmt.Errorf("%s says by its content for no platform that is known; put it into a folder as OS/ARCH/plugin", file)
	}
	return oci.Platform{OS: system, Architecture: arch}.Normal(), nil
}
