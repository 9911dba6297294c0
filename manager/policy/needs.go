package policy

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/bytesize"
	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
)

// NeedsPrefix begins the variables by which a job asks for a machine: RUNG_NEEDS_CPUS, and so on with the keys of [runners.provider.allowed_needs].
const NeedsPrefix = "RUNG_NEEDS_"

// maxLabels is how many labels a job may ask for.
const maxLabels = 32

// Needs are what the machine of a job must have: what the entry says, and what the job asks for beyond that, by variables. The error is an
// *event.Error of code event.CodeDenied or event.CodeEnvironmentInvalid.
func Needs(r *config.Runner, variable func(name string) string) (config.MachineNeeds, error) {
	asked := func(key string) string { return variable(NeedsPrefix + strings.ToUpper(key)) }
	if r.Provider == nil {
		for _, key := range []string{"os", "arch", "cpus", "memory", "disk", "gpus", "labels", "spot"} {
			if asked(key) != "" {
				return config.MachineNeeds{}, denied("use a runner that has them", "runners.provider", "the job asks for a machine with %s %q, and this runner has no machines to choose from", key, asked(key))
			}
		}
		return config.MachineNeeds{}, nil
	}
	n, most := r.Provider.Needs, allowedNeeds(r.Provider)
	err := cmp.Or(
		oneOf("os", asked("os"), &n.OS, most.OS), oneOf("arch", asked("arch"), &n.Arch, most.Arch), spot(asked("spot"), &n),
		processors.atLeast("cpus", asked("cpus"), &n.CPUs, most.CPUs),
		sizes.atLeast("memory", asked("memory"), &n.Memory, most.Memory),
		sizes.atLeast("disk", asked("disk"), &n.Disk, most.Disk),
		graphics.atLeast("gpus", asked("gpus"), &n.GPUs, most.GPUs),
		labels(asked("labels"), &n, most.Labels),
	)
	return n, err
}

// known are the keys of needs, as names of variables end with them.
var known = []string{"OS", "ARCH", "CPUS", "MEMORY", "DISK", "GPUS", "LABELS", "SPOT", "VOLUME"}

// Known refuses a variable that looks as if it asked for a machine and is none that does: the job would run on any. The error is an *event.Error.
func Known(variable string) error {
	key, asks := strings.CutPrefix(variable, NeedsPrefix)
	if !asks || slices.Contains(known, key) {
		return nil
	}
	err := event.NewError(event.CodeEnvironmentInvalid, "the job has a variable %s, which asks for nothing that a machine can have", variable)
	err.Hint = "use " + NeedsPrefix + strings.Join(known, ", "+NeedsPrefix)
	if near := diag.Suggest(strings.ToUpper(key), known); near != "" {
		err.Hint = "did you mean " + NeedsPrefix + near + "?"
	}
	return err
}

// allowedNeeds are what jobs may ask for. Of a fleet that is what its pools have, where nothing is said: no job gets more than the largest machine.
func allowedNeeds(p *config.Provider) config.AllowedNeeds {
	if p.Machinery == nil || !reflect.DeepEqual(p.AllowedNeeds, config.AllowedNeeds{}) {
		return p.AllowedNeeds
	}
	return config.AllowedNeeds{OS: anything, Arch: anything, CPUs: math.MaxFloat64, Memory: math.MaxInt64, Disk: math.MaxInt64, GPUs: math.MaxInt, Labels: anything}
}

// anything is a list of patterns that has all names.
var anything = []string{"*"}

// SpotLabel is the label of machines that their cloud can take back: "true", or "false".
const SpotLabel = "spot"

// spot sets whether the machine may be one that its cloud can take back.
func spot(asked string, n *config.MachineNeeds) error {
	value := map[string]string{"only": "true", "never": "false"}[asked]
	switch {
	case asked == "" || asked == "any":
		return nil
	case value == "":
		return invalid("spot", asked, "only, never or any")
	case n.Labels[SpotLabel] != "" && n.Labels[SpotLabel] != value:
		return contradicts("labels", SpotLabel+"="+value, SpotLabel+"="+n.Labels[SpotLabel])
	}
	had := n.Labels
	n.Labels = map[string]string{SpotLabel: value}
	maps.Copy(n.Labels, had)
	return nil
}

func invalid(key, asked, format string, args ...any) error {
	return event.NewError(event.CodeEnvironmentInvalid, "%s%s is %q, and must be %s", NeedsPrefix, strings.ToUpper(key), asked, fmt.Sprintf(format, args...))
}

func tooMuch(hint, key, asked string) error {
	return denied(hint, "runners.provider.allowed_needs."+key, "the job asks for a machine with %s %q, which is more than jobs of this runner may have", key, asked)
}

func contradicts(key, asked, has string) error {
	return denied("use another runner", "runners.provider.needs."+key, "the job asks for a machine with %s %q, and those of this runner have %q", key, asked, has)
}

// unit is what a number is one of: how it is read, what one is, as the end of "must be", and how people read it.
type unit[N int | int64 | float64] struct {
	parse func(string) (N, error)
	like  string
	text  func(N) string
}

var (
	processors = unit[float64]{finite, "a number, such as 2", func(n float64) string { return fmt.Sprint(n) }}
	graphics   = unit[int]{strconv.Atoi, "a whole number, such as 1", strconv.Itoa}
	sizes      = unit[int64]{config.ParseSize, "a size, such as 2GiB", bytesize.Format}
)

// finite is a number that there is: neither NaN nor without end.
func finite(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, strconv.ErrSyntax
	}
	return n, err
}

// atLeast raises a need to a number that a job asks for.
func (u unit[N]) atLeast(key, asked string, need *N, most N) error {
	if asked == "" {
		return nil
	}
	n, err := u.parse(asked)
	switch {
	case err != nil || n < 0:
		return invalid(key, asked, "%s", u.like)
	case n <= *need:
		return nil
	case n <= most:
		*need = n
		return nil
	case most == 0:
		return tooMuch("use another runner", key, asked)
	}
	return tooMuch(fmt.Sprintf("ask for %s at most, or use another runner", u.text(most)), key, asked)
}

// oneOf sets a need that has one of some names.
func oneOf(key, asked string, need *string, list []string) error {
	switch {
	case asked == "" || asked == *need:
		return nil
	case *need != "":
		return contradicts(key, asked, *need)
	case !slices.Contains(list, asked) && !slices.Equal(list, anything):
		return tooMuch("use one of "+strings.Join(list, ", ")+", or another runner", key, asked)
	}
	*need = asked
	return nil
}

// labels adds the labels that a job asks for: NAME=VALUE,NAME=VALUE.
func labels(asked string, n *config.MachineNeeds, patterns []string) error {
	if asked == "" {
		return nil
	}
	all := strings.Split(asked, ",")
	if len(all) > maxLabels {
		return invalid("labels", asked, "at most %d labels", maxLabels)
	}
	had := n.Labels
	if n.Labels = maps.Clone(had); n.Labels == nil {
		n.Labels = map[string]string{}
	}
	for _, label := range all {
		label = strings.TrimSpace(label)
		name, value, ok := strings.Cut(label, "=")
		has, known := had[name]
		switch {
		case !ok || name == "":
			return invalid("labels", asked, "a list of labels: NAME=VALUE,NAME=VALUE")
		case known && has != value:
			return contradicts("labels", label, name+"="+has)
		case !known && !slices.ContainsFunc(patterns, func(p string) bool { return glob.MatchName(p, label) }):
			return tooMuch("use labels like "+strings.Join(patterns, ", ")+", or another runner", "labels", label)
		}
		n.Labels[name] = value
	}
	return nil
}

// Volume is what a job asks for of a volume of its project: config.PerProject, config.NoVolume, or nothing. The error is an *event.Error.
func Volume(r *config.Runner, variable func(name string) string) (string, error) {
	switch asked := variable(NeedsPrefix + "VOLUME"); {
	case asked != "" && asked != config.PerProject && asked != config.NoVolume:
		return "", event.NewError(event.CodeEnvironmentInvalid, "%sVOLUME must be %q or %q, not %q", NeedsPrefix, config.PerProject, config.NoVolume, asked)
	case asked == config.PerProject && (r.Provider == nil || r.Provider.Machinery == nil || !r.Provider.Machinery.Fleet.WantsVolume(asked)):
		return "", denied("leave it out, or use a runner whose projects have volumes", "runners.fleet.volume", "the job asks for a volume of its project, and this runner has none")
	default:
		return asked, nil
	}
}
