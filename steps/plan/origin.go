package plan

import "strings"

// Origin says where a component was fetched from, exactly enough to fetch the same again. Components in local folders have none.
type Origin struct {
	Kind RefKind `json:"kind"` // git, oci, archive or builtin
	// URL is the repository, image or archive as it was named, before sources were mapped to others: "https://host/project",
	// "oci://registry/repository". It holds no credentials.
	URL string `json:"url"`
	// Rev is the revision that was asked for: a tag, branch or commit; of an image its tag or digest. Archives have none.
	Rev string `json:"rev,omitempty"`
	// Pin is what the revision was: a commit, or the "sha256:…" of an image's manifest, an archive or a built-in package.
	Pin string `json:"pin"`
	// Path is the component's folder in the package, with slashes; "" is the root.
	Path string `json:"path,omitempty"`
	// Package is the content digest of all that was fetched, of which the component is a part.
	Package string `json:"package"`
	// SignedBy are the identifiers of the keys whose signatures over the component were demanded and checked.
	SignedBy []string `json:"signed_by,omitempty"`
}

// String says where a component is from, for people: "https://host/project@v1 (commit) hello".
func (o *Origin) String() string {
	if o == nil {
		return ""
	}
	text := o.URL
	if o.Rev != "" {
		text += "@" + o.Rev
	}
	if o.Pin != o.Rev {
		text += " (" + o.Pin + ")"
	}
	if o.Path != "" {
		text += " " + o.Path
	}
	if len(o.SignedBy) > 0 {
		text += ", signed by " + strings.Join(o.SignedBy, " and ")
	}
	return text
}
