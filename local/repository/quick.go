package repository

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// OpenQuick is Open without the git program, which takes a while to start, as far as a repository can be read without it: one whose
// configuration, refs and last commit are plain files, or in a pack. Any other is opened as Open does. The tags of the commit are left out.
func OpenQuick(ctx context.Context, dir string, env []string) (*Repository, error) {
	r, err := newRepository(dir, env)
	if err != nil {
		return nil, err
	}
	if !r.quick(ctx) {
		return Open(ctx, dir, env)
	}
	return r, nil
}

// quick reads the repository. False is one that git has to be asked about.
func (r *Repository) quick(ctx context.Context) bool {
	root, dir := findFolder(r.Root)
	if dir != filepath.Join(root, ".git") || root == "" || !r.hasGit() || exists(filepath.Join(dir, "shallow")) || exists(filepath.Join(dir, "commondir")) {
		return false
	}
	settings, ok := r.plainConfig(dir)
	if !ok || settings.last("core.worktree") != "" || settings.last("core.bare") == "true" {
		return false
	}
	for _, s := range settings {
		if strings.HasPrefix(s.key, "extensions.") || strings.HasPrefix(s.key, "include") {
			return false
		}
	}
	ref, ok := strings.CutPrefix(strings.TrimSpace(readSmall(filepath.Join(dir, "HEAD"))), "ref: ")
	if !ok {
		return false
	}
	sha := anyRef(dir, ref)
	commit := readCommit(filepath.Join(dir, "objects"), sha)
	if commit == nil {
		return false
	}
	r.Root, r.Git, r.Commit, r.Branch = root, true, commit, strings.TrimPrefix(ref, "refs/heads/")
	r.readBranches(dir)
	r.originHead = "refs/remotes/origin/HEAD"
	if target, ok := strings.CutPrefix(strings.TrimSpace(readSmall(filepath.Join(dir, filepath.FromSlash(r.originHead)))), "ref: "); ok {
		r.originHead = target
	}
	r.takeUser(settings)
	r.takeExcludes(settings)
	r.takeRemote(settings)
	r.takeDefaultBranch(ctx, settings)
	r.takeProject()
	upstream := "refs/remotes/" + settings.last("branch."+r.Branch+".remote") + "/" + strings.TrimPrefix(settings.last("branch."+r.Branch+".merge"), "refs/heads/")
	if r.upstream && anyRef(dir, upstream) == sha {
		r.texts["merge-base\x00HEAD\x00@{upstream}"] = sha
	}
	return true
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// hasGit reports whether there is a git program, which is asked for what is not read here.
func (r *Repository) hasGit() bool {
	for _, folder := range filepath.SplitList(r.variable("PATH")) {
		for _, name := range []string{"git", "git.exe"} {
			if info, err := os.Stat(filepath.Join(folder, name)); err == nil && info.Mode().IsRegular() {
				return true
			}
		}
	}
	return false
}

// plainConfig reads the files that git reads. False is what takes more than that: variables of git's, quotes, escapes, continued lines.
func (r *Repository) plainConfig(dir string) (config, bool) {
	for _, v := range r.env {
		if strings.HasPrefix(v, "GIT_CONFIG") {
			return nil, false
		}
	}
	home := r.variable("HOME")
	xdg := r.variable("XDG_CONFIG_HOME")
	if xdg == "" {
		xdg = filepath.Join(home, ".config")
	}
	if home == "" || filepath.Separator != '/' { // where git's own files are is known of Unix
		return nil, false
	}
	var out config
	for _, file := range []string{"/etc/gitconfig", filepath.Join(xdg, "git", "config"), filepath.Join(home, ".gitconfig"), filepath.Join(dir, "config")} {
		read, ok := plainSettings(readSmall(file))
		if !ok {
			return nil, false
		}
		out = append(out, read...)
	}
	return out, true
}

// plainSettings reads a configuration file of the simplest form.
func plainSettings(text string) (config, bool) {
	var out config
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			kind, name, named := strings.Cut(strings.Trim(line, "[]"), " ")
			if !strings.HasSuffix(line, "]") || strings.Contains(line, `\`) || named && (len(name) < 2 || name[0] != '"' || name[len(name)-1] != '"') {
				return nil, false
			}
			if section = strings.ToLower(kind) + "."; named {
				section += name[1:len(name)-1] + "."
			}
		default:
			key, text, ok := strings.Cut(line, "=")
			if strings.ContainsAny(text, `"\#;`) {
				return nil, false
			}
			if text = strings.TrimSpace(text); !ok {
				text = "true"
			}
			out = append(out, setting{section + strings.ToLower(strings.TrimSpace(key)), text})
		}
	}
	return out, true
}

// anyRef returns what a ref points to; "" where there is none.
func anyRef(dir, ref string) string {
	if sha := looseRef(dir, ref); sha != "" {
		return sha
	}
	return packedRef(dir, ref)
}

// readBranches lists the branches.
func (r *Repository) readBranches(dir string) {
	heads := filepath.Join(dir, "refs", "heads")
	_ = filepath.WalkDir(heads, func(name string, entry fs.DirEntry, err error) error {
		if rel, relErr := filepath.Rel(heads, name); err == nil && relErr == nil && !entry.IsDir() {
			r.branches[filepath.ToSlash(rel)] = true
		}
		return nil
	})
	for line := range strings.Lines(readSmall(filepath.Join(dir, "packed-refs"))) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), " refs/heads/"); ok {
			r.branches[name] = true
		}
	}
}

// maxCommit bounds a commit's text, in bytes.
const maxCommit = 1 << 20

// readCommit reads a commit with a name in SHA-1; nil where that takes more than reading one object.
func readCommit(objects, sha string) *Commit {
	if len(sha) != 40 {
		return nil
	}
	text := readLoose(filepath.Join(objects, sha[:2], sha[2:]))
	if text == nil {
		text = readPacked(filepath.Join(objects, "pack"), sha)
	}
	head, message, ok := strings.Cut(string(text), "\n\n")
	if !ok || strings.Contains(head, "\nencoding ") {
		return nil
	}
	c := &Commit{SHA: sha, ShortSHA: sha[:shortSHA]}
	for line := range strings.SplitSeq(head, "\n") {
		switch key, text, _ := strings.Cut(line, " "); key {
		case "parent":
			if c.Parent == "" {
				c.Parent = text
			}
		case "author":
			c.Author, _, _ = strings.Cut(text, "> ")
			c.Author = strings.ToValidUTF8(c.Author, "\uFFFD") + ">"
		case "committer":
			_, when, _ := strings.Cut(text, "> ")
			c.Timestamp = timeOf(when)
		}
	}
	c.setMessage(strings.ToValidUTF8(message, "\uFFFD"))
	return c
}

// timeOf reads a time of git's: seconds and a zone, "1700000000 +0100".
func timeOf(text string) time.Time {
	number, zone, _ := strings.Cut(text, " ")
	seconds, _ := strconv.ParseInt(number, 10, 64)
	offset, err := time.Parse("-0700", zone)
	if err != nil {
		return time.Unix(seconds, 0).UTC()
	}
	return time.Unix(seconds, 0).In(offset.Location())
}

// readLoose reads the text of a commit that has a file of its own; nil where it has not.
func readLoose(file string) []byte {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	text := inflate(f, maxCommit)
	if header, rest, ok := bytes.Cut(text, []byte{0}); ok && bytes.HasPrefix(header, []byte("commit ")) {
		return rest
	}
	return nil
}

func inflate(r io.Reader, most int64) []byte {
	z, err := zlib.NewReader(bufio.NewReader(r))
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(z, most+1))
	if err != nil || int64(len(text)) > most {
		return nil
	}
	return text
}

// readPacked reads the text of a commit that is whole in a pack; nil where it is not.
func readPacked(folder, sha string) []byte {
	indexes, _ := filepath.Glob(filepath.Join(folder, "pack-*.idx"))
	name, err := hex.DecodeString(sha)
	if err != nil {
		return nil
	}
	for _, index := range indexes {
		if at := find(index, name); at > 0 {
			return readEntry(strings.TrimSuffix(index, ".idx")+".pack", at)
		}
	}
	return nil
}

// Places in an index of version 2: after its header, how many names begin with each byte, the names, and what follows them.
const (
	fanout    = 8
	names     = fanout + 256*4
	nameSize  = 20
	checksum  = 4
	largeFlag = 1 << 31
)

// find returns where an object is in the pack of an index; 0 is nowhere that is known.
func find(index string, name []byte) int64 {
	f, err := os.Open(index)
	if err != nil {
		return 0
	}
	defer f.Close()
	number := func(at int64) int64 {
		var b [4]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			return 0
		}
		return int64(binary.BigEndian.Uint32(b[:]))
	}
	if number(0) != 0xff744f63 || number(4) != 2 {
		return 0
	}
	total := number(fanout + 255*4)
	low, high := int64(0), number(fanout+int64(name[0])*4)
	if name[0] > 0 {
		low = number(fanout + int64(name[0]-1)*4)
	}
	var found [nameSize]byte
	for low < high {
		middle := (low + high) / 2
		if _, err := f.ReadAt(found[:], names+middle*nameSize); err != nil {
			return 0
		}
		switch order := bytes.Compare(found[:], name); {
		case order == 0:
			at := number(names + total*(nameSize+checksum) + middle*4)
			if at >= largeFlag {
				return 0
			}
			return at
		case order < 0:
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0
}

// readEntry reads a commit at a place of a pack; nil is what is something else, or made of others.
func readEntry(pack string, at int64) []byte {
	f, err := os.Open(pack)
	if err != nil {
		return nil
	}
	defer f.Close()
	const room = 16 // for the size, seven bits a byte
	var head [room]byte
	if n, _ := f.ReadAt(head[:], at); n == 0 {
		return nil
	}
	const commit = 1
	if head[0]>>4&7 != commit {
		return nil
	}
	size, shift, used := int64(head[0]&15), 4, 1
	for head[used-1]&0x80 != 0 && used < room && shift < 40 {
		size |= int64(head[used]&0x7f) << shift
		shift += 7
		used++
	}
	if size > maxCommit {
		return nil
	}
	text := inflate(io.NewSectionReader(f, at+int64(used), 1<<62), maxCommit)
	if int64(len(text)) != size {
		return nil
	}
	return text
}
