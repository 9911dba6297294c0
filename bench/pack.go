//go:build unix

package main

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/rungci/rung/internal/pack"
)

// packFigures are about archives of artifacts and caches. The promise is to take no longer than the existing runner's archivers, and no
// more room. On two cores, and a tree like this one, those took so much of the time of a plain loop over Go's archive/zip: 0.367 for its
// default one (1.45 s to 3.95 s), and 0.291 for tar.zst (1.15 s to 3.95 s). The loop runs anywhere, so it is what we measure against.
// For the size it is a loop with the compressor and the level of that archiver. What unpacking may take is a bound of our own.
var packFigures = []figure{
	{name: "packing 240 MB in 15,000 files, to archive/zip", unit: "x ", target: 0.367, measure: packed(func(p *packing) (float64, string, error) {
		return p.inTurn(p.zip, p.plain)
	})},
	{name: "the size of that, to one stream a file", unit: "x ", target: 1, measure: packed((*packing).sizes)},
	{name: "packing the same as tar.zst, to archive/zip", unit: "x ", target: 0.291, measure: packed(func(p *packing) (float64, string, error) {
		return p.inTurn(p.tar, p.plain)
	})},
	{name: "unpacking the zip, to archive/zip", unit: "x ", target: 0.6, measure: packed(func(p *packing) (float64, string, error) {
		if _, err := p.zip(); err != nil {
			return 0, "", err
		}
		return p.inTurn(p.unzip, p.plainUnzip)
	})},
}

// sizes returns how large our archive is, as a share of one whose files are compressed as the existing runner does it.
func (p *packing) sizes() (float64, string, error) {
	const level = 5
	if _, err := p.loop(func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, level) }); err != nil {
		return 0, "", err
	}
	theirs, err := p.size()
	if err != nil {
		return 0, "", err
	}
	if _, err = p.zip(); err != nil {
		return 0, "", err
	}
	ours, err := p.size()
	return float64(ours) / float64(theirs), fmt.Sprintf("%.1f MB against %.1f MB", float64(ours)/1e6, float64(theirs)/1e6), err
}

// packing is a tree of files, and an archive of it.
type packing struct {
	dir     string
	names   []string
	archive string
	rounds  int
}

// packed gives a measurement the tree, which is always the same, in memory where that can hold files: the time that a disk takes to
// make 15,000 of them says nothing about us, and is most of it.
func packed(measure func(*packing) (float64, string, error)) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		dir, err := os.MkdirTemp("/dev/shm", "rung-bench-")
		if err != nil {
			dir, err = os.MkdirTemp(w.dir, "pack-")
		}
		if err != nil {
			return 0, "", err
		}
		defer os.RemoveAll(dir)
		p := &packing{dir: filepath.Join(dir, "tree"), archive: filepath.Join(dir, "archive"), rounds: min(w.rounds, 5)}
		if err := makeTree(p.dir); err != nil {
			return 0, "", err
		}
		err = filepath.WalkDir(p.dir, func(path string, _ fs.DirEntry, err error) error {
			if name, _ := filepath.Rel(p.dir, path); name != "." {
				p.names = append(p.names, name)
			}
			return err
		})
		if err != nil {
			return 0, "", err
		}
		return measure(p)
	}
}

// inTurn returns how long one takes, as a share of the other.
func (p *packing) inTurn(a, b func() (time.Duration, error)) (float64, string, error) {
	var ratios []float64
	var first, second []time.Duration
	for range p.rounds {
		ours, err := a()
		if err != nil {
			return 0, "", err
		}
		theirs, err := b()
		if err != nil {
			return 0, "", err
		}
		first, second = append(first, ours), append(second, theirs)
		ratios = append(ratios, float64(ours)/float64(theirs))
	}
	return median(ratios), fmt.Sprintf("%.2f s against %.2f s", median(first).Seconds(), median(second).Seconds()), nil
}

func (p *packing) size() (int64, error) {
	info, err := os.Stat(p.archive)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// timed writes the archive again.
func (p *packing) timed(write func(io.Writer) error) (time.Duration, error) {
	start := time.Now()
	f, err := os.Create(p.archive)
	if err != nil {
		return 0, err
	}
	err = write(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return time.Since(start), err
}

func (p *packing) zip() (time.Duration, error) {
	return p.timed(func(w io.Writer) error {
		_, err := pack.Zip(context.Background(), w, p.dir, p.names, pack.Options{})
		return err
	})
}

func (p *packing) tar() (time.Duration, error) {
	return p.timed(func(w io.Writer) error {
		_, err := pack.TarZstd(context.Background(), w, p.dir, p.names, pack.Options{})
		return err
	})
}

// plain is what a program does that does nothing special.
func (p *packing) plain() (time.Duration, error) { return p.loop(nil) }

// loop packs one file after the other with archive/zip, and a compressor of its own or another one.
func (p *packing) loop(compressor zip.Compressor) (time.Duration, error) {
	return p.timed(func(w io.Writer) error {
		z := zip.NewWriter(w)
		if compressor != nil {
			z.RegisterCompressor(zip.Deflate, compressor)
		}
		for _, name := range p.names {
			if err := plainAdd(z, filepath.Join(p.dir, name), name); err != nil {
				return err
			}
		}
		return z.Close()
	})
}

func plainAdd(z *zip.Writer, path, name string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	h, err := zip.FileInfoHeader(info)
	if err != nil {
		return err
	}
	h.Name, h.Method = name, zip.Deflate
	if info.IsDir() {
		h.Name, h.Method = name+"/", zip.Store
	}
	w, err := z.CreateHeader(h)
	if err != nil || info.IsDir() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

func (p *packing) unzip() (time.Duration, error) {
	return p.unpacked(func(dir string) error {
		f, err := os.Open(p.archive)
		if err != nil {
			return err
		}
		defer f.Close()
		size, err := p.size()
		if err != nil {
			return err
		}
		_, err = pack.ExtractZip(context.Background(), f, size, dir, pack.ExtractOptions{})
		return err
	})
}

func (p *packing) plainUnzip() (time.Duration, error) {
	return p.unpacked(func(dir string) error {
		z, err := zip.OpenReader(p.archive)
		if err != nil {
			return err
		}
		defer z.Close()
		for _, f := range z.File {
			if err := plainExtract(f, filepath.Join(dir, f.Name)); err != nil {
				return err
			}
		}
		return nil
	})
}

func plainExtract(f *zip.File, path string) error {
	if strings.HasSuffix(f.Name, "/") {
		return os.MkdirAll(path, 0o755)
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, f.Mode())
	if err != nil {
		return err
	}
	if _, err = io.Copy(w, r); err == nil {
		err = os.Chtimes(path, f.Modified, f.Modified)
	}
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}

// unpacked times something that writes into a new folder; taking that away again does not count.
func (p *packing) unpacked(unpack func(dir string) error) (time.Duration, error) {
	dir, err := os.MkdirTemp(filepath.Dir(p.dir), "unpacked-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	start := time.Now()
	err = unpack(dir)
	return time.Since(start), err
}

// makeTree writes 15,000 files of 240 MB together, as a build leaves them: most are small texts, and a few are large and hold bytes that
// do not compress.
func makeTree(dir string) error {
	const folders, files = 300, 15_000
	random := rand.New(rand.NewPCG(1, 2))
	text := newTexts(random)
	for i := range folders {
		if err := os.MkdirAll(treeFolder(dir, i), 0o755); err != nil {
			return err
		}
	}
	for i := range files {
		size := 500 + int(random.ExpFloat64()*9_000)
		var content []byte
		switch {
		case i%1500 == 7:
			content = text.make(8_000_000)
		case i%300 == 5:
			content = make([]byte, 300_000)
			for j := range content {
				content[j] = byte(random.Uint32())
			}
		default:
			content = text.make(size)
		}
		if err := os.WriteFile(filepath.Join(treeFolder(dir, i%folders), fmt.Sprintf("file-%05d.txt", i)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func treeFolder(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("part-%02d", i%17), fmt.Sprintf("package-%d", i%5), fmt.Sprintf("folder-%03d", i))
}

// texts makes text that compresses about as well as source code: words of which few are frequent, in lines that come back.
type texts struct {
	random *rand.Rand
	zipf   *rand.Zipf
	words  []string
}

func newTexts(random *rand.Rand) *texts {
	t := &texts{random: random, zipf: rand.NewZipf(random, 1.25, 4, 4999)}
	for range 5000 {
		word := make([]byte, 2+random.IntN(10))
		for j := range word {
			word[j] = "etaoinsrhldcumfpgwybvkxjqz_"[min(26, int(random.ExpFloat64()*7))]
		}
		t.words = append(t.words, string(word))
	}
	return t
}

func (t *texts) make(size int) []byte {
	out := make([]byte, 0, size+200)
	for len(out) < size {
		if len(out) > 400 && t.random.IntN(4) == 0 { // something that was before
			from := len(out) - 60 - t.random.IntN(min(len(out)-60, 20_000))
			out = append(out, out[from:from+20+t.random.IntN(40)]...)
			continue
		}
		for range 3 + t.random.IntN(8) {
			out = append(out, t.words[t.zipf.Uint64()]...)
			out = append(out, " .(),=\t"[t.random.IntN(7)])
		}
		out = append(out, '\n')
	}
	return out[:size]
}
