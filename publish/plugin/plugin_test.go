package plugin

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/rungci/rung/internal/pluginstore"
	publish "github.com/rungci/rung/publish/oci"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/oci"
	"github.com/rungci/rung/steps/source/sourcetest"
)

func newRegistry(t *testing.T) *sourcetest.Registry {
	t.Helper()
	r := sourcetest.NewRegistry(false)
	t.Cleanup(r.Close)
	return r
}

// script is a program for every platform.
func script(t *testing.T, base, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), base)
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// push publishes programs, and returns the digest.
func push(t *testing.T, to, version string, paths ...string) string {
	t.Helper()
	programs, kind, err := Programs(paths)
	if err != nil {
		t.Fatal(err)
	}
	image := Image{Programs: programs, Kind: kind, Name: "aws", Version: version}
	pushed, err := image.Push(t.Context(), publish.Target{At: &source.Location{Kind: plan.RefOCI, Name: to, URL: to, Rev: version}, Tag: version, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	return pushed.Digest
}

func wanted(t *testing.T, text string) Wanted {
	t.Helper()
	ref, err := pluginstore.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return Wanted{Reference: ref}
}

// installed installs a plugin, and returns its record and the text of its program.
func installed(t *testing.T, folder string, w Wanted, from *Place) (*pluginstore.Record, string) {
	t.Helper()
	r, _, err := Install(t.Context(), folder, w, from)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(r.File())
	if err != nil {
		t.Fatal(err)
	}
	return r, string(text)
}

func TestWhatWasPublishedIsWhatIsInstalled(t *testing.T) {
	r, folder := newRegistry(t), t.TempDir()
	at := r.Host() + "/ci/aws"
	digest := push(t, at, "1.2.3", script(t, "group-plugin-aws", "one"))
	if again := push(t, at, "1.2.3", script(t, "group-plugin-aws", "one")); again != digest {
		t.Errorf("the same program has the digest %s, and then %s", digest, again)
	}
	got, text := installed(t, folder, wanted(t, at+":1"), &Place{})
	if text != "#!/bin/sh\none" || got.Digest != digest || got.Version != "1.2.3" || got.Kind != "group" || got.Name != "aws" || got.Source != at || got.Check() != nil {
		t.Errorf("%+v with %q", got, text)
	}
	asked := r.Count("GET", "")
	if _, done, err := Install(t.Context(), folder, wanted(t, at+":1"), &Place{}); done || err != nil || r.Count("GET", "") != asked {
		t.Errorf("it is installed again: %v, %v", done, err)
	}
	if again, _ := installed(t, t.TempDir(), wanted(t, at+"@"+digest), &Place{}); again.Version != "1.2.3" {
		t.Errorf("by its digest it is version %s", again.Version)
	}
}

func TestAVersionThatHasMovedIsReplacedByAnUpgradeAlone(t *testing.T) {
	r, folder := newRegistry(t), t.TempDir()
	at := r.Host() + "/ci/aws"
	push(t, at, "1.0.0", script(t, "group-plugin-aws", "one"))
	installed(t, folder, wanted(t, at), &Place{})
	push(t, at, "1.0.0", script(t, "group-plugin-aws", "two"))
	if _, text := installed(t, folder, wanted(t, at), &Place{}); text != "#!/bin/sh\none" {
		t.Errorf("without an upgrade it is %q", text)
	}
	w := wanted(t, at)
	w.Upgrade = true
	if _, text := installed(t, folder, w, &Place{}); text != "#!/bin/sh\ntwo" {
		t.Errorf("after an upgrade it is %q", text)
	}
}

func TestTheKindMustBeTheOneThatIsWanted(t *testing.T) {
	r := newRegistry(t)
	at := r.Host() + "/ci/aws"
	push(t, at, "1.0.0", script(t, "executor-plugin-aws", "one"))
	w := wanted(t, at)
	w.Kind = "group"
	var denied *source.DeniedError
	if _, _, err := Install(t.Context(), t.TempDir(), w, &Place{}); !errors.As(err, &denied) {
		t.Errorf("%v", err)
	}
}

// container is an image as container engines run them, made by somebody else's library: with these files, and an entrypoint.
func container(t *testing.T, entrypoint string, files ...string) v1.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Name: files[i], Mode: 0o755, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg}
		if target, ok := strings.CutPrefix(files[i+1], "->"); ok {
			h.Typeflag, h.Linkname, h.Size, files[i+1] = tar.TypeSymlink, target, 0, ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err == nil && entrypoint != "" {
		image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: runtime.GOOS, Architecture: runtime.GOARCH, Config: v1.Config{Entrypoint: []string{entrypoint}}})
		if err == nil {
			image, err = mutate.AppendLayers(image, layer)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestAnOrdinaryImageIsAPluginIfItHasOneProgram(t *testing.T) {
	for about, tc := range map[string]struct {
		image v1.Image
		want  string // text of the program, or of the error
	}{
		"its entrypoint":           {container(t, "/ko-app/aws", "ko-app/aws", "the program", "etc/passwd", "root"), "the program"},
		"a link to its program":    {container(t, "/bin/aws", "bin/aws", "->/opt/aws", "opt/aws", "the program"), "the program"},
		"the usual name":           {container(t, "/bin/sh", "plugin", "the program", "bin/sh", "a shell"), "the program"},
		"the only file":            {container(t, "", "group-plugin-aws", "the program"), "the program"},
		"an entrypoint not there":  {container(t, "aws", "bin/sh", "a shell", "etc/passwd", "root"), "it holds no program"},
		"a link that leads out":    {container(t, "", "a", "->../../etc/passwd", "b", "->/etc/passwd"), ""},
		"files, and none for this": {container(t, "", "a", "1", "b", "2"), "it holds no program"},
	} {
		t.Run(about, func(t *testing.T) {
			r := newRegistry(t)
			ref, err := name.NewTag(r.Host()+"/ci/aws:1.0.0", name.Insecure)
			if err != nil {
				t.Fatal(err)
			}
			if err := remote.Write(ref, tc.image, remote.WithContext(t.Context())); err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			got, _, err := Install(t.Context(), folder, wanted(t, r.Host()+"/ci/aws:1"), &Place{})
			if err != nil {
				if left, _ := os.ReadDir(folder); len(left) > 0 {
					t.Errorf("it has left %v", left)
				}
				if tc.want == "the program" || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v", err)
				}
				return
			}
			text, err := os.ReadFile(got.File())
			if err != nil || string(text) != tc.want {
				t.Errorf("the program is %q, %v", text, err)
			}
		})
	}
}

func TestALayoutOfAnotherToolIsAMirror(t *testing.T) {
	for about, tc := range map[string]struct{ below, ref string }{
		"with a version alone":    {"aws", "1.0.0"},
		"by its name":             {"", "aws:1.0.0"},
		"by its repository":       {"", "r.example.com/ci/aws:1.0.0"},
		"in a folder of its path": {"r.example.com/ci/aws", "1.0.0"},
	} {
		t.Run(about, func(t *testing.T) {
			mirror := t.TempDir()
			at, err := layout.Write(filepath.Join(mirror, filepath.FromSlash(tc.below)), empty.Index)
			if err != nil {
				t.Fatal(err)
			}
			annotated := layout.WithAnnotations(map[string]string{publish.AnnotationRefName: tc.ref})
			if err := at.AppendImage(container(t, "/aws", "aws", "the program"), annotated); err != nil {
				t.Fatal(err)
			}
			if err := at.AppendImage(container(t, "/other", "other", "another"), layout.WithAnnotations(map[string]string{publish.AnnotationRefName: "other:9.0.0"})); err != nil {
				t.Fatal(err)
			}
			got, text := installed(t, t.TempDir(), wanted(t, "r.example.com/ci/aws:1"), &Place{Mirror: mirror})
			if text != "the program" || got.Source != "r.example.com/ci/aws" || got.Version != "1.0.0" {
				t.Errorf("%+v with %q", got, text)
			}
		})
	}
}

// mirrored is a mirror with a plugin.
func mirrored(t *testing.T) (folder string, blobs []string) {
	t.Helper()
	folder = t.TempDir()
	programs, kind, err := Programs([]string{script(t, "group-plugin-aws", strings.Repeat("one\n", 100))})
	if err != nil {
		t.Fatal(err)
	}
	image := Image{Programs: programs, Kind: kind, Name: "aws", Version: "1.0.0"}
	if _, _, err := image.Mirror(t.Context(), folder, "aws:1.0.0", false); err != nil {
		t.Fatal(err)
	}
	blobs, err = filepath.Glob(filepath.Join(folder, "blobs", "sha256", "*"))
	if err != nil || len(blobs) < 3 {
		t.Fatal(blobs, err)
	}
	return folder, blobs
}

func TestAMirrorThatIsDamagedIsCalledThat(t *testing.T) {
	for name, damage := range map[string]func(folder string, blobs []string) error{
		"no blob": func(_ string, blobs []string) error {
			return errors.Join(os.Remove(blobs[0]), os.Remove(blobs[len(blobs)-1]))
		},
		"a broken index": func(folder string, _ []string) error {
			return os.WriteFile(filepath.Join(folder, "index.json"), []byte("{"), 0o644)
		},
		"no file": func(folder string, _ []string) error {
			index := filepath.Join(folder, "index.json")
			return errors.Join(os.Remove(index), os.Mkdir(index, 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder, blobs := mirrored(t)
			if err := damage(folder, blobs); err != nil {
				t.Fatal(err)
			}
			_, _, err := Install(t.Context(), t.TempDir(), wanted(t, "aws"), &Place{Mirror: folder})
			var denied *source.DeniedError
			if !errors.As(err, &denied) || denied.What != "aws" || !strings.Contains(denied.Why, "the mirror "+folder+" is damaged") || strings.Contains(err.Error(), "oci build") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestAProgramForAnotherPlatformIsNotInstalled(t *testing.T) {
	program := filepath.Join(t.TempDir(), "plugin")
	head := make([]byte, 64) // of an ELF file for x86-64
	copy(head, "\x7fELF\x02\x01\x01")
	head[16], head[18], head[20], head[52], head[54], head[58] = 2, 62, 1, 64, 56, 64
	if err := os.WriteFile(program, head, 0o755); err != nil {
		t.Fatal(err)
	}
	mirror := t.TempDir()
	image := Image{Programs: []Program{{Platform: oci.Platform{OS: "linux", Architecture: "s390x"}, File: program}}, Name: "aws", Version: "1.0.0"}
	if _, _, err := image.Mirror(t.Context(), mirror, "aws:1.0.0", false); err != nil {
		t.Fatal(err)
	}
	w := wanted(t, "aws")
	w.Platform = oci.Platform{OS: "linux", Architecture: "s390x"}
	if _, _, err := Install(t.Context(), t.TempDir(), w, &Place{Mirror: mirror}); err == nil || !strings.Contains(err.Error(), "its program for linux/s390x is one for linux/amd64") {
		t.Error(err)
	}
}

func TestAnInstalledProgramThatWasChangedIsNotLeftAlone(t *testing.T) {
	mirror, _ := mirrored(t)
	folder, w, from := t.TempDir(), wanted(t, "aws"), &Place{Mirror: mirror}
	got, text := installed(t, folder, w, from)
	if err := os.Chmod(got.File(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(got.File(), []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	var denied *source.DeniedError
	if _, _, err := Install(t.Context(), folder, w, from); !errors.As(err, &denied) || !strings.Contains(denied.Hint, "--upgrade") {
		t.Errorf("%v", err)
	}
	w.Upgrade = true
	if _, again := installed(t, folder, w, from); again != text {
		t.Errorf("it is %q", again)
	}
}

func TestADamagedMirrorInstallsNothing(t *testing.T) {
	_, blobs := mirrored(t)
	for i := range blobs {
		folder, blobs := mirrored(t)
		text, err := os.ReadFile(blobs[i])
		if err != nil {
			t.Fatal(err)
		}
		text[len(text)/2] ^= 1
		if err := os.WriteFile(blobs[i], text, 0o644); err != nil {
			t.Fatal(err)
		}
		to := t.TempDir()
		if got, _, err := Install(t.Context(), to, wanted(t, "aws"), &Place{Mirror: folder}); err == nil {
			t.Errorf("with %s it is %+v", filepath.Base(blobs[i]), got)
		}
		if left, _ := os.ReadDir(to); len(left) > 0 {
			t.Errorf("it has left %v", left)
		}
	}
}

func TestARegistryThatSendsAnotherProgramInstallsNothing(t *testing.T) {
	r := newRegistry(t)
	at := r.Host() + "/ci/aws"
	push(t, at, "1.0.0", script(t, "group-plugin-aws", "one"))
	r.Intercept = func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodGet || !strings.Contains(req.URL.Path, "/blobs/") {
			return false
		}
		_, _ = io.WriteString(w, "something else")
		return true
	}
	folder := t.TempDir()
	var denied *source.DeniedError
	if _, _, err := Install(t.Context(), folder, wanted(t, at), &Place{}); !errors.As(err, &denied) {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("it has left %v", left)
	}
}

func TestWhatHasNothingForThisMachineSaysForWhichItHas(t *testing.T) {
	r := newRegistry(t)
	at := r.Host() + "/ci/aws"
	folder := filepath.Join(t.TempDir(), "plan9", "386")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "plugin"), []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	push(t, at, "1.0.0", filepath.Dir(filepath.Dir(folder)))
	var missing *source.NotFoundError
	if _, _, err := Install(t.Context(), t.TempDir(), wanted(t, at), &Place{}); !errors.As(err, &missing) || !strings.Contains(err.Error(), "it is for plan9/386") {
		t.Errorf("%v", err)
	}
}

func TestAProgramSaysWhatItIsFor(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := detect(own)
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		if want := oci.Host(); err != nil || p.OS != want.OS || p.Architecture != want.Architecture {
			t.Errorf("this program is for %s, %v", p, err)
		}
	}
	if p, err := detect(script(t, "s", "x")); err != nil || p.OS != oci.Generic.OS {
		t.Errorf("a script is for %s, %v", p, err)
	}
	for _, text := range []string{"", "x", "text that is long enough", "\x7fELF", "MZ is no program"} {
		file := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if p, err := detect(file); err == nil {
			t.Errorf("%q is for %s", text, p)
		}
	}
}

func TestProgramsThatDoNotFitTogetherAreRefused(t *testing.T) {
	one, two := script(t, "group-plugin-aws", "1"), script(t, "executor-plugin-aws", "2")
	if _, _, err := Programs([]string{one, two}); err == nil {
		t.Error("of two kinds")
	}
	if _, _, err := Programs([]string{one, script(t, "group-plugin-aws", "3")}); err == nil || !strings.Contains(err.Error(), "are both for generic") {
		t.Errorf("for one platform: %v", err)
	}
}

func TestTheAnnotationsOfAnImageAreInItsIndex(t *testing.T) {
	folder, _ := mirrored(t)
	opened, err := publish.OpenLayout(folder)
	if err != nil {
		t.Fatal(err)
	}
	all, err := opened.Images()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	m, err := opened.Manifest(all[0])
	if err != nil {
		t.Fatal(err)
	}
	var index struct{ Annotations map[string]string }
	if err := json.Unmarshal(m.Data, &index); err != nil {
		t.Fatal(err)
	}
	if a := index.Annotations; a[annotationKind] != "group" || a[annotationVersion] != "1.0.0" || a[annotationTitle] != "aws" || all[0].ArtifactType != ArtifactType {
		t.Errorf("%v, %s", a, all[0].ArtifactType)
	}
}

func TestAnInstallationThatIsInterruptedLeavesNothing(t *testing.T) {
	r := newRegistry(t)
	at := r.Host() + "/ci/aws"
	push(t, at, "1.0.0", script(t, "group-plugin-aws", "one"))
	ctx, cancel := context.WithCancel(t.Context())
	r.Intercept = func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.Contains(req.URL.Path, "/blobs/") {
			cancel()
		}
		return false
	}
	folder := t.TempDir()
	if _, _, err := Install(ctx, folder, wanted(t, at), &Place{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("it has left %v", left)
	}
}
