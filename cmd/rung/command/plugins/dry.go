package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/plugin"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/fleet/group"
	groupplugin "github.com/rungci/rung/fleet/group/plugin"
	"github.com/rungci/rung/internal/pluginhost"
	"github.com/rungci/rung/internal/plugintrial"
	"github.com/rungci/rung/internal/tempfolder"
)

// dryTime bounds each case in which nothing is made.
const dryTime = time.Minute

// dry tries what makes nothing: that the plugin opens, with these options and not with what no plugin can know, and that it lists.
type dry struct {
	kind       *pluginhost.Kind
	config     pluginhost.Config
	stepRunner string
}

// run calls each with every case.
func (d *dry) run(ctx context.Context, each func(plugintrial.Result)) (passed bool) {
	passed = true
	for _, c := range []struct {
		name string
		try  func(ctx context.Context, state string) error
	}{
		{"it opens with these options, and closes", d.opens},
		{"what it has can be listed twice, and nothing is made", d.lists},
		{"options that are not an object are refused", func(ctx context.Context, state string) error { return d.refuses(ctx, state, `[]`) }},
		{"an option that nobody knows is refused", d.refusesUnknown},
		{"it opens again after it was closed", d.opens},
	} {
		result := plugintrial.Result{Case: c.name, Passed: true}
		if err := d.try(ctx, c.try); err != nil {
			result.Passed, passed, result.Details = false, false, []string{err.Error()}
		}
		each(result)
	}
	return passed
}

// try tries one case in a folder that goes with it.
func (d *dry) try(ctx context.Context, do func(context.Context, string) error) error {
	state, err := tempfolder.Make("state")
	if err != nil {
		return err
	}
	defer tempfolder.Remove(state)
	ctx, cancel := context.WithTimeoutCause(ctx, dryTime, fmt.Errorf("it has taken longer than %s", dryTime))
	defer cancel()
	return do(ctx, state)
}

// open opens the plugin with options. The list is of what it has, as far as its kind can say that.
func (d *dry) open(ctx context.Context, state string, options json.RawMessage) (list func() ([]string, error), closed func() error, err error) {
	config := d.config
	config.Options = options
	nothing := func() ([]string, error) { return nil, nil }
	var opened io.Closer
	switch d.kind {
	case groupplugin.Kind:
		g := group.Adapt(groupplugin.New(groupplugin.Config{Config: config}))
		if _, err := g.Init(ctx, nil, group.Settings{Owner: "dry", State: state}); err != nil {
			return nil, nil, err
		}
		list = func() (ids []string, err error) {
			all, err := g.List(ctx)
			for _, one := range all {
				ids = append(ids, one.ID)
			}
			slices.Sort(ids)
			return ids, err
		}
		return list, func() error { return g.Shutdown(ctx) }, nil
	case plugin.ProviderKind:
		opened, err = plugin.OpenProvider(ctx, config, provider.Setup{Owner: "dry", State: state})
	default:
		opened, err = plugin.Open(ctx, config, executor.Setup{Program: func(string, string) (string, error) { return d.stepRunner, nil }, State: state, Temp: state})
	}
	if err != nil {
		return nil, nil, err
	}
	return nothing, opened.Close, nil
}

func (d *dry) opens(ctx context.Context, state string) error {
	_, closed, err := d.open(ctx, state, d.config.Options)
	if err != nil {
		return err
	}
	return closed()
}

func (d *dry) lists(ctx context.Context, state string) error {
	list, closed, err := d.open(ctx, state, d.config.Options)
	if err != nil {
		return err
	}
	first, err := list()
	second, again := list()
	if err = errors.Join(err, again, closed()); err == nil && !slices.Equal(first, second) {
		err = fmt.Errorf("the first list is %q, and the second %q", first, second)
	}
	return err
}

// refuses checks that options are refused, and that the plugin does not crash over them.
func (d *dry) refuses(ctx context.Context, state, options string) error {
	_, closed, err := d.open(ctx, state, json.RawMessage(options))
	var failure *pluginhost.Failure
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("it opens with the options %s", options), closed())
	case errors.As(err, &failure):
		return fmt.Errorf("with the options %s: %w", options, err)
	}
	return nil
}

func (d *dry) refusesUnknown(ctx context.Context, state string) error {
	options := map[string]json.RawMessage{}
	if len(d.config.Options) > 0 {
		if err := json.Unmarshal(d.config.Options, &options); err != nil {
			return fmt.Errorf("the options of --options are not an object: %w", err)
		}
	}
	options["made_up_option"] = json.RawMessage("1")
	text, err := json.Marshal(options)
	if err != nil {
		return err
	}
	return d.refuses(ctx, state, string(text))
}
