package docker

import (
	"encoding/csv"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/executor/container/engine"
)

// gpus reads what docker run --gpus takes: all, a number, or fields such as "device=0,1",driver=nvidia,capabilities=compute.
func (r *reader) gpus(key, text string) []engine.DeviceRequest {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	fields, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		r.say(key, "%q is not a list of fields with commas between them", text)
		return nil
	}
	out := engine.DeviceRequest{Count: 1}
	var capabilities []string
	named := map[string]bool{}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		if !strings.Contains(field, "=") {
			name, value = "count", field
		}
		if named[name] {
			r.say(key, "%q has %s twice", text, name)
		}
		named[name] = true
		switch name {
		case "count":
			out.Count = -1
			if value != "all" {
				if out.Count, err = strconv.Atoi(value); err != nil || out.Count < 0 {
					r.say(key, "%q must be all, or a number of graphics processors", value)
				}
			}
		case "driver":
			out.Driver = value
		case "device":
			out.DeviceIDs = strings.Split(value, ",")
		case "capabilities":
			capabilities = strings.Split(value, ",")
		case "options":
			out.Options = map[string]string{}
			for _, pair := range strings.Split(value, ",") {
				name, value, _ := strings.Cut(pair, "=")
				out.Options[name] = value
			}
		default:
			r.say(key, "%q has the field %s; it can have count, device, driver, capabilities and options", text, name)
		}
	}
	switch {
	case out.DeviceIDs != nil && named["count"]:
		r.say(key, "%q has a count and devices, and can have one of them", text)
	case out.DeviceIDs != nil:
		out.Count = 0
	}
	if !slices.Contains(capabilities, "gpu") {
		capabilities = append(capabilities, "gpu")
	}
	out.Capabilities = [][]string{capabilities}
	return []engine.DeviceRequest{out}
}
