package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// bom is a list of materials as CycloneDX 1.6 has it.
type bom struct {
	Schema      string      `json:"$schema"`
	BOMFormat   string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type     string     `json:"type"`
	Ref      string     `json:"bom-ref"`
	Name     string     `json:"name"`
	Version  string     `json:"version"`
	PURL     string     `json:"purl"`
	Hashes   []hash     `json:"hashes,omitempty"`
	Property []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// sbom writes what a platform's program is made of: the modules that the linker recorded in it, and Go's library.
func (r *release) sbom(platform, program string) error {
	info, err := buildinfo.ReadFile(r.binary(platform, program))
	if err != nil {
		return err
	}
	sum, err := digest(r.binary(platform, program))
	if err != nil {
		return err
	}
	purl := "pkg:golang/" + info.Main.Path + "@" + r.version
	list := bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", BOMFormat: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: metadata{r.built.Format(time.RFC3339), component{
			Type: "application", Ref: purl, Name: program, Version: r.version, PURL: purl,
			Hashes: []hash{{"SHA-256", sum}}, Property: []property{{"rung:platform", platform}},
		}},
		Components: []component{module("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "")},
	}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		list.Components = append(list.Components, module(dep.Path, dep.Version, dep.Sum))
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, program+strings.TrimPrefix(r.name(platform), product)+".cdx.json"), append(text, '\n'), 0o644)
}

// module is a Go module as a component. Its sum is that of go.sum, which CycloneDX has no field for.
func module(path, version, sum string) component {
	purl := "pkg:golang/" + path + "@" + version
	c := component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
	if sum != "" {
		c.Property = []property{{"go:sum", sum}}
	}
	return c
}
