package containers

import (
	"flag"
	"io"
	"strings"
)

// ActionProgram is the built-in program that runs the container of a Docker action.
const ActionProgram = "docker/action"

// Action is what the arguments of that program say of the container.
type Action struct {
	Image      string
	Dockerfile string // in the action's own folder, from which the image is built
	Entrypoint string
	Env        list
	Words      string   // the arguments of the entrypoint as one text
	Args       []string // those behind --
}

// list is a flag that can be given again.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

// Set implements flag.Value.
func (l *list) Set(text string) error { *l = append(*l, text); return nil }

// ParseAction reads those arguments. The program reads them with it, and whoever has to know its image before it starts.
func ParseAction(args []string) (*Action, error) {
	var a Action
	flags := flag.NewFlagSet(ActionProgram, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&a.Image, "image", "", "")
	flags.StringVar(&a.Dockerfile, "dockerfile", "", "")
	flags.StringVar(&a.Entrypoint, "entrypoint", "", "")
	flags.Var(&a.Env, "env", "")
	flags.StringVar(&a.Words, "args", "", "")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	a.Args = flags.Args()
	return &a, nil
}
