package gitserver

import (
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
)

// service is all that is served: nobody can write.
const service = "git-upload-pack"

// protocolForm is what a client may ask for in Git-Protocol.
var protocolForm = regexp.MustCompile(`^version=[0-2]$`)

// Info answers GET …/info/refs: what there is to fetch. Who may ask is the caller's to decide.
func (r *Repository) Info(w http.ResponseWriter, req *http.Request) {
	if req.URL.Query().Get("service") != service {
		http.Error(w, "this repository can only be read", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
	w.Header().Set("Cache-Control", "no-cache")
	if req.Header.Get("Git-Protocol") != "version=2" { // where the answer begins in another way
		_, _ = io.WriteString(w, "001e# service="+service+"\n0000")
	}
	r.upload(w, req, http.NoBody, "--advertise-refs")
}

// UploadPack answers POST …/git-upload-pack: the objects that a client asks for.
func (r *Repository) UploadPack(w http.ResponseWriter, req *http.Request) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	w.Header().Set("Content-Type", "application/x-"+service+"-result")
	w.Header().Set("Cache-Control", "no-cache")
	r.upload(w, req, body)
}

// upload runs git upload-pack.
func (r *Repository) upload(w http.ResponseWriter, req *http.Request, body io.Reader, args ...string) {
	var env []string
	if p := req.Header.Get("Git-Protocol"); protocolForm.MatchString(p) {
		env = append(env, "GIT_PROTOCOL="+p)
	}
	// A job may fetch the commit that it was sent, whatever the refs are by now.
	all := append([]string{"-c", "uploadpack.allowAnySHA1InWant=true", "upload-pack", "--stateless-rpc", "--strict"}, args...)
	cmd := r.command(req.Context(), env, "", append(all, r.dir)...)
	cmd.Stdin, cmd.Stdout = body, w
	_ = cmd.Run() // what is wrong is in what the client gets, or the client is gone
}
