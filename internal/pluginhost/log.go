package pluginhost

import (
	"context"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// logger hands on what a plugin, and go-plugin about it, say. What go-plugin says in the ordinary course of things is left out.
func (c *Config) logger() hclog.Logger {
	if c.Logger != nil {
		return c.Logger.With("plugin", c.Name)
	}
	to := c.Log
	if to == nil {
		to = slog.Default()
	}
	return Logger(to.With("plugin", c.Name))
}

// Logger writes to slog, for what speaks as plugins do.
func Logger(to *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	l.RegisterSink(&sink{to})
	return l
}

// sink writes to slog what hclog says.
type sink struct{ to *slog.Logger }

var levels = map[hclog.Level]slog.Level{hclog.Info: slog.LevelInfo, hclog.Warn: slog.LevelWarn, hclog.Error: slog.LevelError}

// Accept implements hclog.SinkAdapter. Levels that are not in the table are debugging.
func (s *sink) Accept(_ string, level hclog.Level, message string, args ...any) {
	as, ok := levels[level]
	if !ok {
		as = slog.LevelDebug
	}
	s.to.Log(context.Background(), as, message, args...)
}
