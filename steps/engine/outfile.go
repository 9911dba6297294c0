package engine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rungci/rung/steps/value"
)

// MaxStepFile bounds an output file and an export file, in bytes. A value may take all of it.
const MaxStepFile = 256 << 20

// readEntries reads a file of JSON Lines, each {"name": …, "value": …}: a later line of the same name wins, blank lines and
// other keys are ignored. Source: the existing step-runner's output and export files.
func readEntries(r io.Reader) (map[string]value.Value, error) {
	entries := map[string]value.Value{}
	limited := &io.LimitedReader{R: r, N: MaxStepFile + 1}
	lines := bufio.NewReaderSize(limited, 64<<10)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if limited.N <= 0 {
			return nil, fmt.Errorf("the file is larger than %d MiB, the limit for outputs and exports", MaxStepFile>>20)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
			name, v, perr := parseEntry(trimmed)
			if perr != nil {
				return nil, fmt.Errorf("line %d: %w", number, perr)
			}
			entries[name] = v
		}
		if err != nil {
			return entries, nil
		}
	}
}

func parseEntry(line []byte) (string, value.Value, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return "", value.Value{}, fmt.Errorf(`failed to unmarshal JSON, want {"name": "…", "value": …}: %w`, plainJSONError(err))
	}
	rawName, ok := fields["name"]
	if !ok {
		return "", value.Value{}, errors.New(`"name" field is missing`)
	}
	nameValue, err := value.ParseJSON(rawName)
	switch {
	case err != nil:
		return "", value.Value{}, err
	case nameValue.IsNull():
		return "", value.Value{}, errors.New(`"name" field value is null`)
	case nameValue.Kind() != value.String:
		return "", value.Value{}, fmt.Errorf(`"name" field is %s, not a string`, nameValue.Kind().WithArticle())
	case nameValue.Str() == "":
		return "", value.Value{}, errors.New(`"name" field value is empty`)
	}
	rawValue, ok := fields["value"]
	if !ok {
		return "", value.Value{}, errors.New(`"value" field is missing`)
	}
	v, err := value.ParseJSON(rawValue)
	if err != nil {
		return "", value.Value{}, fmt.Errorf(`"value" field: %w`, err)
	}
	if v.IsNull() {
		return "", value.Value{}, errors.New(`"value" field value is null`)
	}
	return nameValue.Str(), v, nil
}

// plainJSONError says what was found instead of an object, without the name of a Go type.
func plainJSONError(err error) error {
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("a JSON %s is not an object", wrong.Value)
	}
	return err
}

// readStepResult reads an output file that holds one StepResult in JSON: the outputs of a step that delegates them.
// Source: proto.StepResult of the existing step-runner.
func readStepResult(r io.Reader) (map[string]value.Value, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxStepFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxStepFile {
		return nil, fmt.Errorf("the file is larger than %d MiB, the limit for outputs and exports", MaxStepFile>>20)
	}
	var result struct {
		Outputs value.Value `json:"outputs"`
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return nil, fmt.Errorf("the output file must contain one StepResult as JSON: %w", plainJSONError(err))
	}
	if kind := result.Outputs.Kind(); kind != value.Struct && kind != value.Null {
		return nil, fmt.Errorf("the outputs of the StepResult are %s, not an object", kind.WithArticle())
	}
	return result.Outputs.Fields(), nil
}

// readStepFile reads what a step wrote to one of its files. A file that was never asked for, or is empty, holds nothing.
func readStepFile(path string, read func(io.Reader) (map[string]value.Value, error)) (map[string]value.Value, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // opening a named pipe would wait for ever
		return nil, errors.New("the step replaced the file with something that is not a regular file")
	case info.Size() == 0:
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f)
}

// exportText returns a value as an environment variable holds it.
func exportText(name string, v value.Value) (string, error) {
	switch v.Kind() {
	case value.String, value.Number, value.Boolean:
		return v.Text(), nil
	default:
		return "", fmt.Errorf("key %q: cannot convert value type %q to string", name, v.Kind())
	}
}
