package blob

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
)

// maxBlockList is how large the text of a block list may be, in bytes.
const maxBlockList = 16 << 20

// ServeUpload answers a PUT of Azure's protocol: comp=block, comp=blocklist, or the whole content.
func ServeUpload(w http.ResponseWriter, r *http.Request, u *Upload) {
	r.Body = http.MaxBytesReader(w, r.Body, MaxSize)
	var err error
	switch comp := r.URL.Query().Get("comp"); comp {
	case "":
		err = u.Put(r.Body)
	case "block":
		err = u.Block(r.URL.Query().Get("blockid"), r.Body)
	case "blocklist":
		var ids []string
		if ids, err = blockList(io.LimitReader(r.Body, maxBlockList)); err == nil {
			err = u.Commit(ids)
		}
	default:
		Fail(w, http.StatusNotImplemented, "NotImplemented", "comp="+comp+" is not served here")
		return
	}
	w.Header().Set("x-ms-request-id", u.ID)
	w.Header().Set("x-ms-request-server-encrypted", "false")
	if err != nil {
		status, code := Status(err)
		Fail(w, status, code, err.Error())
		return
	}
	w.Header().Set("ETag", `"`+u.ID+`"`)
	w.WriteHeader(http.StatusCreated)
}

// blockList reads the names of a block list, whatever elements they are in: there are no two states of a block here.
func blockList(r io.Reader) ([]string, error) {
	var list struct {
		Blocks []struct {
			ID string `xml:",chardata"`
		} `xml:",any"`
	}
	if err := xml.NewDecoder(r).Decode(&list); err != nil {
		return nil, errors.Join(ErrBadBlock, err)
	}
	ids := make([]string, len(list.Blocks))
	for i, b := range list.Blocks {
		ids[i] = b.ID
	}
	return ids, nil
}

// Status says how an error is answered, by HTTP and by Azure's code.
func Status(err error) (status int, code string) {
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, ErrTooLarge), errors.As(err, &tooLong):
		return http.StatusRequestEntityTooLarge, "RequestBodyTooLarge"
	case errors.Is(err, ErrBadBlock):
		return http.StatusBadRequest, "InvalidBlockList"
	case errors.Is(err, ErrIncomplete), errors.Is(err, io.ErrUnexpectedEOF):
		return http.StatusBadRequest, "InvalidInput"
	default:
		return http.StatusInternalServerError, "InternalError"
	}
}

// Fail answers with an error as Azure words it.
func Fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("x-ms-error-code", code)
	w.WriteHeader(status)
	answer := struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: code, Message: message}
	if text, err := xml.Marshal(answer); err == nil {
		w.Write(text)
	}
}
