package engine

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Exec is a command that is run in a container, connected to a stream.
type Exec struct {
	Cmd          []string
	Env          []string `json:",omitempty"`
	WorkingDir   string   `json:",omitempty"`
	User         string   `json:",omitempty"` // "" is that of the container
	Tty          bool     // it gets a terminal, and its stream has no frames
	AttachStdin  bool
	AttachStdout bool
	AttachStderr bool
}

// ExecState is what is known of a command.
type ExecState struct {
	Running  bool
	ExitCode *int // nil of a command that has not started, or runs
}

// Exec starts a command in a container, and returns its id and its stream.
func (c Containers) Exec(ctx context.Context, container string, command Exec) (id string, s *Stream, err error) {
	command.AttachStdin, command.AttachStdout, command.AttachStderr = true, true, true
	var made identified
	if err := c.client.post(ctx, containerPath(container, "/exec"), nil, command, &made); err != nil {
		return "", nil, err
	}
	body := struct{ Detach, Tty bool }{Tty: command.Tty}
	s, err = c.client.hijack(ctx, &request{method: http.MethodPost, path: "/exec/" + made.ID + "/start", body: body})
	return made.ID, s, err
}

// InspectExec returns what is known of a command.
func (c Containers) InspectExec(ctx context.Context, id string) (ExecState, error) {
	var found ExecState
	err := c.client.get(ctx, "/exec/"+id+"/json", nil, &found)
	return found, err
}

// ResizeExec changes the size of a command's terminal.
func (c Containers) ResizeExec(ctx context.Context, id string, rows, columns int) error {
	return c.client.post(ctx, "/exec/"+id+"/resize", url.Values{"h": {strconv.Itoa(rows)}, "w": {strconv.Itoa(columns)}}, nil, nil)
}
