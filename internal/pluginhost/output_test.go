package pluginhost

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestALineOfAPluginIsALineOfTheLog(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for name, c := range map[string]struct{ line, want string }{
		"numbers keep their digits": {`{"@level":"info","@message":"created","vmid":978367581,"id":5577006791947779410,"share":0.25}`, "level=INFO msg=created plugin=one vmid=978367581 id=5577006791947779410 share=0.25"},
		"numbers within values":     {`{"@level":"warn","@message":"m","all":{"a":[1234567890123]}}`, "level=WARN msg=m plugin=one all=map[a:[1234567890123]]"},
		"a message that is none":    {`{"@level":"error","@message":5}`, `level=ERROR msg="" plugin=one`},
		"a level that is none":      {`{"@level":7,"@message":"m"}`, `level=DEBUG msg="{\"@level\":7,\"@message\":\"m\"}" plugin=one`},
		"JSON of somebody else":     {`{"a":1}`, `level=DEBUG msg="{\"a\":1}" plugin=one`},
		"more than one value":       {`{"@level":"info","@message":"m"} and more`, `level=DEBUG msg="{\"@level\":\"info\",\"@message\":\"m\"} and more" plugin=one`},
		"text":                      {"hello", "level=DEBUG msg=hello plugin=one"},
		"text with a level":         {"[WARN] hello", `level=WARN msg="[WARN] hello" plugin=one`},
		"text that is too long":     {"[WARN] " + long, `level=WARN msg="[WARN] ` + long[7:] + "\" plugin=one\nlevel=WARN msg=xxxxxxx plugin=one"},
		"a panic":                   {"panic: no\n\ngoroutine 1", "level=ERROR msg=\"panic: no\" plugin=one\nlevel=ERROR msg=\"\" plugin=one\nlevel=ERROR msg=\"goroutine 1\" plugin=one"},
	} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		s := &said{to: (&Config{Name: "one", Log: log}).logger(), kept: io.Discard}
		eachLine(bufio.NewReaderSize(strings.NewReader(c.line+"\n"), maxLine), s.wrote)
		if got := strings.TrimSpace(out.String()); got != c.want {
			t.Errorf("%s:\n%.300s\nwant:\n%.300s", name, got, c.want)
		}
	}
}
