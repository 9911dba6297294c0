package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// entry is a file of an archive.
type entry struct {
	name, path string
	mode       fs.FileMode
}

// entries are the files of a platform's archive: the programs, and what is in share, in one folder.
func (r *release) entries(platform string) ([]entry, error) {
	var list []entry
	for _, program := range programs {
		binary := r.binary(platform, program.name)
		list = append(list, entry{r.name(platform) + "/" + filepath.Base(binary), binary, 0o755})
	}
	share := filepath.Join(r.work, "share")
	err := filepath.WalkDir(share, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".gz") { // packages have those
			return err
		}
		relative, err := filepath.Rel(share, path)
		list = append(list, entry{r.name(platform) + "/" + filepath.ToSlash(relative), path, 0o644})
		return err
	})
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return list, err
}

// pack writes a platform's archive and returns its path.
func (r *release) pack(platform string) (path string, err error) {
	list, err := r.entries(platform)
	if err != nil {
		return "", err
	}
	write, path := r.tarball, filepath.Join(r.out, r.name(platform)+".tar.gz")
	if strings.HasPrefix(platform, "windows-") {
		write, path = r.zip, filepath.Join(r.out, r.name(platform)+".zip")
	}
	out, err := os.Create(path)
	if err != nil {
		return "", err
	}
	return path, errors.Join(write(out, list), out.Close())
}

func (r *release) tarball(out io.Writer, list []entry) error {
	z, err := gzip.NewWriterLevel(out, r.level)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, e := range list {
		text, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(text)), ModTime: r.built, Typeflag: tar.TypeReg}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), z.Close())
}

func (r *release) zip(out io.Writer, list []entry) error {
	w := zip.NewWriter(out)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, r.level) })
	for _, e := range list {
		text, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.built}
		h.SetMode(e.mode)
		file, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := file.Write(text); err != nil {
			return err
		}
	}
	return w.Close()
}

// formulaData is what the template of the Homebrew formula is given.
type formulaData struct {
	Version string
	Systems []formulaSystem
}

type formulaSystem struct {
	Name     string // as Homebrew has it
	Archives []formulaArchive
}

type formulaArchive struct{ CPU, URL, SHA256 string }

func (r *release) writeFormula(archives map[string]string) error {
	text, err := os.ReadFile(r.formula)
	if err != nil {
		return err
	}
	tmpl, err := template.New(filepath.Base(r.formula)).Parse(string(text))
	if err != nil {
		return err
	}
	data := formulaData{Version: strings.TrimPrefix(r.version, "v")}
	for _, system := range [][2]string{{"macos", "darwin"}, {"linux", "linux"}} {
		s := formulaSystem{Name: system[0]}
		for _, cpu := range [][2]string{{"arm", "arm64"}, {"intel", "amd64"}} {
			path, ok := archives[system[1]+"-"+cpu[1]]
			if !ok {
				continue
			}
			sum, err := digest(path)
			if err != nil {
				return err
			}
			s.Archives = append(s.Archives, formulaArchive{cpu[0], strings.TrimSuffix(r.url, "/") + "/" + filepath.Base(path), sum})
		}
		if len(s.Archives) > 0 {
			data.Systems = append(data.Systems, s)
		}
	}
	out, err := os.Create(filepath.Join(r.out, strings.TrimSuffix(filepath.Base(r.formula), ".tmpl")))
	if err != nil {
		return err
	}
	return errors.Join(tmpl.Execute(out, data), out.Close())
}

// digest is the SHA-256 of a file, in hex.
func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
