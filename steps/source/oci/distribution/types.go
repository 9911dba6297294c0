package distribution

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"
)

// Media types of manifests and of what they name. Those of Docker came before those of OCI and mean the same.
const (
	MediaTypeIndex    = "application/vnd.oci.image.index.v1+json"
	MediaTypeManifest = "application/vnd.oci.image.manifest.v1+json"
	MediaTypeConfig   = "application/vnd.oci.image.config.v1+json"
	DockerIndex       = "application/vnd.docker.distribution.manifest.list.v2+json"
	DockerManifest    = "application/vnd.docker.distribution.manifest.v2+json"
	DockerConfig      = "application/vnd.docker.container.image.v1+json"
)

// Annotations that mean something here.
const (
	AnnotationCreated = "org.opencontainers.image.created" // when, as RFC 3339 has it
	AnnotationTitle   = "org.opencontainers.image.title"   // the name of the file that a layer is
)

// Digest is "sha256:" and 64 hexadecimal digits. It comes from a registry: validate it before it is part of a path or a URL.
type Digest string

const digestPrefix = "sha256:"

// Validate returns what is wrong with a digest.
func (d Digest) Validate() error {
	sum, ok := strings.CutPrefix(string(d), digestPrefix)
	if !ok {
		return errors.New("only digests that begin with sha256: can be used")
	}
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size || strings.ToLower(sum) != sum {
		return fmt.Errorf("it has not %d hexadecimal digits in lower case", 2*sha256.Size)
	}
	return nil
}

// Hex is the part behind "sha256:".
func (d Digest) Hex() string { return strings.TrimPrefix(string(d), digestPrefix) }

// String is the whole text.
func (d Digest) String() string { return string(d) }

// DigestOf returns the digest of data.
func DigestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest(digestPrefix + hex.EncodeToString(sum[:]))
}

// DigestSum returns the digest that a SHA-256 has come to.
func DigestSum(h hash.Hash) Digest { return Digest(digestPrefix + hex.EncodeToString(h.Sum(nil))) }

// digestReader returns the digest of what can be read.
func digestReader(r io.Reader) (Digest, error) {
	h := sha256.New()
	_, err := io.Copy(h, r)
	return DigestSum(h), err
}

// Descriptor names a blob or a manifest.
type Descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       Digest            `json:"digest"`
	Size         int64             `json:"size"` // in bytes
	Annotations  map[string]string `json:"annotations,omitempty"`
	Platform     *Platform         `json:"platform,omitempty"` // of a manifest in an index
	ArtifactType string            `json:"artifactType,omitempty"`
}

// Platform is what a manifest in an index is for.
type Platform struct {
	Architecture string   `json:"architecture"`
	OS           string   `json:"os"`
	OSVersion    string   `json:"os.version,omitempty"`
	OSFeatures   []string `json:"os.features,omitempty"`
	Variant      string   `json:"variant,omitempty"`
}

// Index is a manifest that names others.
type Index struct {
	SchemaVersion int               `json:"schemaVersion"` // 2
	MediaType     string            `json:"mediaType,omitempty"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Manifests     []Descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// ImageManifest is the manifest of an image or an artifact.
type ImageManifest struct {
	SchemaVersion int               `json:"schemaVersion"` // 2
	MediaType     string            `json:"mediaType,omitempty"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        Descriptor        `json:"config"`
	Layers        []Descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// ImageConfig is the configuration of an image that nobody runs.
type ImageConfig struct {
	Created *time.Time `json:"created,omitempty"`
	Platform
	Config RunConfig `json:"config"`
	RootFS RootFS    `json:"rootfs"`
}

// RunConfig says how a container engine runs an image.
type RunConfig struct {
	Entrypoint []string `json:"Entrypoint,omitempty"`
}

// RootFS says what the layers of an image are, before they were compressed.
type RootFS struct {
	Type    string   `json:"type"` // "layers"
	DiffIDs []Digest `json:"diff_ids"`
}
