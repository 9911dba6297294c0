package config

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// Use is what becomes of a key.
type Use string

// The uses.
const (
	Used    Use = "used"
	Ignored Use = "ignored" // it has no meaning here
	Planned Use = "planned" // it has none yet
	Refused Use = "refused" // an entry that needs it is not run
	Renamed Use = "renamed" // gitlab-runner does not know it any more
)

// Key is one of gitlab-runner's, or ours.
type Key struct {
	Name   string // runners[].docker.image
	Type   string // as keys.txt explains
	Values []string
	Use    Use
	Text   string // what it does, why it is not used, or its new name
}

//go:embed keys.txt
var keyTable string

// Keys are all keys, in the order of the table.
var Keys = sync.OnceValue(func() []Key {
	var keys []Key
	for line := range strings.Lines(keyTable) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		k := Key{Name: fields[0], Use: Use(fields[2]), Text: strings.Join(fields[3:], " ")}
		kind, values, limited := strings.Cut(fields[1], "=")
		if k.Type = kind; limited {
			k.Values = strings.Split(values, "|")
		}
		keys = append(keys, k)
	}
	return keys
})

// table is a table of the file: its keys by lower-case name. Below any is the key that stands for all.
type table struct {
	keys map[string]*node
	any  *Key
}

type node struct {
	Key
	table
}

// last is the key's name within its table.
func (n *node) last() string {
	return strings.TrimSuffix(n.Name[strings.LastIndexByte(n.Name, '.')+1:], "[]")
}

// schema is the table of keys as a tree.
var schema = sync.OnceValue(func() *table {
	root := &table{keys: map[string]*node{}}
	for _, k := range Keys() {
		at := root
		parts := strings.Split(k.Name, ".")
		for _, part := range parts[:len(parts)-1] {
			at = &at.keys[strings.ToLower(strings.TrimSuffix(part, "[]"))].table
		}
		if name := parts[len(parts)-1]; name == "**" {
			at.any = &k
		} else {
			at.keys[strings.ToLower(name)] = &node{Key: k, table: table{keys: map[string]*node{}}}
		}
	}
	return root
})

// names are the keys of the table that somebody may have meant.
func (t *table) names() []string {
	var all []string
	for _, n := range t.keys {
		if n.Use != Renamed {
			all = append(all, n.last())
		}
	}
	slices.Sort(all)
	return all
}
