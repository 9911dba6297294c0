package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of keys in docs/rung.md")

// TestTheDocumentHasAllKeys holds docs/rung.md against the table of keys.
func TestTheDocumentHasAllKeys(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "rung.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- keys -->\n", "<!-- /keys -->"
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/rung.md has no place for the keys")
	}
	want := before + begin + keysDocument() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if strings.ReplaceAll(string(text), "\r\n", "\n") != want {
		t.Error("the keys in docs/rung.md are out of date; run go test ./manager/config -run Document -update")
	}
}

// typeNames are the types of keys for people.
var typeNames = map[string]string{
	"secret": "text", "string": "text", "int": "number", "seconds": "seconds", "kilobytes": "kilobytes", "bool": "boolean", "float": "number",
	"words": "text or list", "floats": "list", "ints": "list", "map": "table", "lists": "table", "flags": "table", "object": "table", "cpus": "text: a number", "any": "any",
}

// keysDocument has a table for each table of the file. One that is not used at all has one row.
func keysDocument() string {
	rows := map[string][]string{}
	var order []string
	whole := map[string]bool{} // tables of which nothing is used
	add := func(table, row string) {
		if rows[table] == nil {
			order = append(order, table)
		}
		rows[table] = append(rows[table], row)
	}
	for _, k := range Keys() {
		parent := k.Name[:max(strings.LastIndexByte(k.Name, '.'), 0)]
		switch {
		case k.Type == "table" && (k.Use == Planned || k.Use == Refused) && strings.Count(k.Name, ".") < 2,
			k.Type == "table" && k.Use == Ignored:
			add(k.Name, fmt.Sprintf("| all keys | | %s | %s |", k.Use, k.Text))
			whole[k.Name] = true
		case k.Type == "table", k.Type == "tables", strings.HasSuffix(k.Name, ".**"), whole[topTable(k.Name)]:
		default:
			add(parent, keyRow(k, strings.TrimPrefix(k.Name[len(parent):], ".")))
		}
	}
	var b strings.Builder
	for _, table := range order {
		title := "Global"
		if table != "" {
			title = "`" + tableName(table) + "`"
		}
		fmt.Fprintf(&b, "\n### %s\n\n| key | type | use | what it does, or why it is not used |\n|---|---|---|---|\n%s\n", title, strings.Join(rows[table], "\n"))
	}
	return b.String() + "\n"
}

func keyRow(k Key, name string) string {
	kind, what := k.Type, k.Text
	if other, ok := typeNames[kind]; ok {
		kind = other
	}
	if k.Use == Renamed {
		what = "write `" + k.Text + "`"
	}
	if len(k.Values) > 0 {
		what += ": `" + strings.Join(k.Values, "`, `") + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |", name, kind, k.Use, what)
}

// topTable is the table of an entry, or of the file, that a key is in: runners[].docker.
func topTable(key string) string {
	parts := strings.Split(key, ".")
	return strings.Join(parts[:min(len(parts), 2)], ".")
}
