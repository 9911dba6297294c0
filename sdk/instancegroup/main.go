package instancegroup

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"google.golang.org/grpc"

	fleetv1 "github.com/rungci/rung/api/rung/fleet/v1"
	"github.com/rungci/rung/internal/pluginhost/handshake"
	"github.com/rungci/rung/internal/pluginoption"
	"github.com/rungci/rung/sdk/internal/pluginserver"
)

// VersionInfo says which plugin this is, for people.
type VersionInfo struct {
	// Name is that of the plugin, whose file is called group-plugin-NAME.
	Name, Version string
	// Revision and Reference are of the source, and BuiltAt is when it was built (RFC 3339).
	Revision, Reference, BuiltAt string
}

// String is the version.
func (v VersionInfo) String() string { return cmp.Or(v.Version, "dev") }

// BuildInfo is the rest, in one line.
func (v VersionInfo) BuildInfo() string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s/%s %s", v.Revision, v.Reference, v.BuiltAt, runtime.GOOS, runtime.GOARCH, runtime.Version())), " ")
}

// Full is all of it, in lines.
func (v VersionInfo) Full() string {
	return fmt.Sprintf("Name:         %s\nVersion:      %s\nGit revision: %s\nGit ref:      %s\nGO version:   %s\nBuilt:        %s\nOS/Arch:      %s/%s\n",
		v.Name, v, v.Revision, v.Reference, runtime.Version(), v.BuiltAt, runtime.GOOS, runtime.GOARCH)
}

// Main is the main function of a plugin: it prints the version where the program was started with "version", and serves the group to the runner that started it otherwise.
func Main(g Basic, version VersionInfo) {
	if len(os.Args) > 1 {
		os.Exit(command(os.Args[1:], version, os.Stdout, os.Stderr))
	}
	serve(g, version)
}

// command does what the program was asked for, and returns its exit code.
func command(args []string, version VersionInfo, stdout, stderr io.Writer) int {
	const usage = 2
	switch strings.TrimLeft(args[0], "-") {
	case "version":
		fmt.Fprint(stdout, version.Full())
		return 0
	case "bootstrap":
		fmt.Fprintln(stderr, "plugins are not installed by themselves: put this file on the PATH, or name it in the configuration")
		return usage
	}
	fmt.Fprintf(stderr, "unknown argument %q: this is a plugin, which rung starts; the only command is \"version\"\n", args[0])
	return usage
}

// Serve serves a group to the runner that started this program, and ends the program with it. What is written to the logger of Init, and to standard error, is in the
// runner's log. So is what it prints, once it serves.
func Serve(g Basic) {
	serve(g, VersionInfo{Name: strings.TrimPrefix(filepath.Base(os.Args[0]), "group-plugin-")})
}

func serve(g Basic, version VersionInfo) {
	s := &server{group: g, version: version, log: pluginserver.Logger(version.Name), end: pluginserver.End}
	pluginserver.Serve(version.Name, map[int]func(*grpc.Server){handshake.Version: func(to *grpc.Server) { fleetv1.RegisterInstanceGroupServer(to, s) }}, func() bool {
		_, err := s.ready()
		return err == nil
	})
}

// configured is what options are for.
func configured(g Basic) any {
	if m, ok := g.(*machines); ok {
		return m.cloud
	}
	return g
}

// decode fills what an author wrote from options. The error says which option is wrong, and shows no value: it may be a secret.
func decode(options string, into any) error {
	options = cmp.Or(options, "{}")
	var each map[string]json.RawMessage
	if err := json.Unmarshal([]byte(options), &each); err != nil {
		return errors.New("the options must be a JSON object")
	}
	err := strictly(options, into)
	if err == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(each)) {
		alone, failed := json.Marshal(map[string]json.RawMessage{name: each[name]})
		if failed != nil {
			break
		}
		if err := strictly(string(alone), reflect.New(reflect.TypeOf(into).Elem()).Interface()); err != nil {
			return wrongOption(name, err)
		}
	}
	return fmt.Errorf("the options: %w", err)
}

func strictly(options string, into any) error {
	decoder := json.NewDecoder(strings.NewReader(options))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// wrongOption is what is wrong with an option, or within it.
func wrongOption(name string, err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return &OptionError{Pointer: pluginoption.Join(strings.Split(kind.Field, ".")...), Err: fmt.Errorf("the option %q must be %s, not %s", kind.Field, kind.Type, kind.Value)}
	}
	return &OptionError{Pointer: pluginoption.Join(name), Err: fmt.Errorf("the option %q: %w", name, err)}
}
