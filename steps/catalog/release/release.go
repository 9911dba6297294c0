// Package release is the code of builtin://release: a release of a project on GitLab, or the record of one in a folder.
//
// A record is the file RECORD/TAG.json. It holds what GitLab would be sent. Signs that are not plain in a file's name are written as
// %XX in it, so that every tag has a file of its own in that folder.
package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rungci/rung/internal/wholefile"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/value"
)

// MaxDescription bounds the description, in bytes: GitLab takes a million characters.
const MaxDescription = 4_000_000

type inputs struct {
	TagName     string   `json:"tag_name"`
	TagMessage  string   `json:"tag_message"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Ref         string   `json:"ref"`
	Milestones  []string `json:"milestones"`
	ReleasedAt  string   `json:"released_at"`
	Assets      []asset  `json:"assets"`
	APIURL      string   `json:"api_url"`
	Project     string   `json:"project"`
	Token       string   `json:"token"`
	Record      string   `json:"record"`
}

// asset is a link, as .gitlab-ci.yml has it.
type asset struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	FilePath string `json:"filepath"`
	LinkType string `json:"link_type"`
}

// body is a release as GitLab's API takes it.
type body struct {
	TagName     string   `json:"tag_name"`
	TagMessage  string   `json:"tag_message,omitempty"`
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Ref         string   `json:"ref,omitempty"`
	Milestones  []string `json:"milestones,omitempty"`
	ReleasedAt  string   `json:"released_at,omitempty"`
	Assets      *assets  `json:"assets,omitempty"`
}

type assets struct {
	Links []link `json:"links"`
}

type link struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	Path     string `json:"direct_asset_path,omitempty"`
	LinkType string `json:"link_type,omitempty"`
}

// Run is builtin://release.
func Run(ctx context.Context, call *program.Call) error {
	var in inputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	b, err := in.body(call)
	if err != nil {
		return err
	}
	var address string
	switch {
	case in.Record != "":
		address, err = in.record(call, b)
	case in.APIURL != "":
		address, err = in.create(ctx, call, b)
	default:
		err = errors.New("neither api_url nor record is given: there is nowhere to make the release")
	}
	if err != nil {
		return fmt.Errorf("the release %s: %w", in.TagName, err)
	}
	return call.Output("url", value.OfString(address))
}

// body checks the inputs.
func (in *inputs) body(call *program.Call) (*body, error) {
	if strings.TrimSpace(in.TagName) == "" {
		return nil, errors.New("tag_name is empty; a release needs a tag")
	}
	text, err := description(call.WorkDir, in.Description)
	if err != nil {
		return nil, err
	}
	b := &body{
		TagName: in.TagName, TagMessage: in.TagMessage, Name: in.Name, Description: text, Ref: in.Ref,
		Milestones: in.Milestones, ReleasedAt: in.ReleasedAt,
	}
	if in.ReleasedAt != "" && !isTime(in.ReleasedAt) {
		return nil, fmt.Errorf("released_at %q is not a time of ISO 8601; write it like 2026-01-31T12:00:00Z", in.ReleasedAt)
	}
	for i, a := range in.Assets {
		if err := a.check(); err != nil {
			return nil, fmt.Errorf("assets[%d]: %w", i, err)
		}
		if b.Assets == nil {
			b.Assets = &assets{}
		}
		b.Assets.Links = append(b.Assets.Links, link{Name: a.Name, URL: a.URL, Path: a.FilePath, LinkType: a.LinkType})
	}
	return b, nil
}

func isTime(text string) bool {
	return slices.ContainsFunc([]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", time.DateOnly},
		func(layout string) bool { _, err := time.Parse(layout, text); return err == nil })
}

func (a *asset) check() error {
	if a.Name == "" || a.URL == "" {
		return errors.New("a link needs a name and a url")
	}
	u, err := url.Parse(a.URL)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "ftp"}, u.Scheme) {
		return errors.New("its url must be an address of http, https or ftp")
	}
	if !slices.Contains([]string{"", "other", "runbook", "image", "package"}, a.LinkType) {
		return fmt.Errorf("its link_type %q is not known; known are other, runbook, image and package", a.LinkType)
	}
	return nil
}

// description returns the text of a release: that of a file of the work directory, if there is one of that name, or the words themselves.
// A name that leads to a file outside is an error, and not a text.
func description(dir, words string) (string, error) {
	if words == "" || len(words) > 4096 || strings.ContainsAny(words, "\n\r\x00") || filepath.IsAbs(words) {
		return words, nil
	}
	if _, err := os.Lstat(filepath.Join(dir, words)); err != nil {
		return words, nil // nothing is called like that
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	info, err := root.Stat(filepath.Clean(words))
	switch {
	case err != nil:
		return "", fmt.Errorf("the description's file %q cannot be read: it is outside of the work directory, or leads there", words)
	case !info.Mode().IsRegular():
		return words, nil
	case info.Size() > MaxDescription:
		return "", fmt.Errorf("the description's file %q has %d bytes; at most %d are allowed", words, info.Size(), MaxDescription)
	}
	f, err := root.Open(filepath.Clean(words))
	if err != nil {
		return "", fmt.Errorf("the description's file %q: %w", words, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxDescription))
	if err != nil {
		return "", fmt.Errorf("the description's file %q: %w", words, err)
	}
	if !utf8.Valid(text) {
		return "", fmt.Errorf("the description's file %q is not UTF-8", words)
	}
	return string(text), nil
}

// record writes the release into the folder, and returns the file.
func (in *inputs) record(call *program.Call, b *body) (string, error) {
	dir := in.Record
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(call.WorkDir, dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, FileName(in.TagName))
	if err := wholefile.WriteText(path, 0o644, append(text, '\n')); err != nil {
		return "", err
	}
	fmt.Fprintf(call.Stdout, "Recorded release %s: %s\n", in.TagName, path)
	return path, nil
}

// FileName is the name of the record of a tag.
func FileName(tag string) string {
	var b strings.Builder
	for i := range len(tag) {
		c := tag[i]
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '+' || c == '.' && i > 0
		if plain {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String() + ".json"
}
