// Command release packs the programs that scripts/dist.sh built: an archive and a list of materials (SBOM) for each platform, and
// the Homebrew formula. The same files give the same bytes: names are sorted, every time is SOURCE_DATE_EPOCH, nobody owns anything.
package main

import (
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// programs are those of a release, with the most that each may have, in bytes: every environment is sent the first. Kubernetes' client is 12 MB of the second.
var programs = []struct {
	name string
	most int64
}{{"step-runner", 32_000_000}, {"rung", 60_000_000}}

// product is what archives are called.
const product = "step-runner"

// release is what is packed.
type release struct {
	version string    // as the program reports it
	built   time.Time // of every file
	work    string    // programs, in OS-ARCH folders; and share/, which all archives hold
	out     string
	formula string // the template of the Homebrew formula; empty makes none
	url     string // where archives are downloaded from
	level   int    // of the archives' compression
}

func main() {
	r := release{level: gzip.BestCompression}
	flag.StringVar(&r.version, "version", "", "the `VERSION` that is packed")
	flag.StringVar(&r.work, "work", "", "the `DIR` with the programs, in OS-ARCH folders, and share/")
	flag.StringVar(&r.out, "out", "", "the `DIR` for the result")
	flag.StringVar(&r.formula, "formula", "", "the template `FILE` of the Homebrew formula")
	flag.StringVar(&r.url, "url", "", "the `URL` that archives are downloaded from")
	flag.Parse()
	if err := r.run(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) run(epoch string) error {
	if r.version == "" || r.work == "" || r.out == "" {
		return errors.New("-version, -work and -out are required")
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.built = time.Unix(seconds, 0).UTC()
	platforms, err := r.platforms()
	if err != nil {
		return err
	}
	archives := map[string]string{} // by platform
	for _, p := range platforms {
		archive, err := r.pack(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		archives[p] = archive
		for _, program := range programs {
			if err := r.sbom(p, program.name); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
	}
	if r.formula == "" {
		return nil
	}
	return r.writeFormula(archives)
}

// platforms are the OS-ARCH folders that hold programs. Each must have all of them.
func (r *release) platforms() ([]string, error) {
	found, err := filepath.Glob(filepath.Join(r.work, "*-*", product+"*"))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no program in %s", r.work)
	}
	var names []string
	for _, path := range found {
		platform := filepath.Base(filepath.Dir(path))
		for _, program := range programs {
			path := r.binary(platform, program.name)
			info, err := os.Stat(path)
			if err != nil {
				return nil, err
			}
			if info.Size() > program.most {
				return nil, fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), program.most)
			}
		}
		names = append(names, platform)
	}
	slices.Sort(names)
	return names, nil
}

// binary is the path of a program for a platform.
func (r *release) binary(platform, program string) string {
	if strings.HasPrefix(platform, "windows-") {
		program += ".exe"
	}
	return filepath.Join(r.work, platform, program)
}

// name is what a platform's files are called, without what they end with.
func (r *release) name(platform string) string { return product + "-" + r.version + "-" + platform }
