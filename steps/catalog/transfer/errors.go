package transfer

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// What is read of an answer that says why a request failed, and how much of that is shown.
const (
	maxErrorBody    = 16 << 10
	maxErrorMessage = 400
)

// NetworkError says that no answer came.
type NetworkError struct {
	Method, Address string
	Err             error
}

func (e *NetworkError) Error() string { return fmt.Sprintf("%s %s: %v", e.Method, e.Address, e.Err) }

// Unwrap returns what went wrong.
func (e *NetworkError) Unwrap() error { return e.Err }

// StatusError is an answer that is not success.
type StatusError struct {
	Method, Address string
	Status          int
	Message         string        // what the server says; "" when that is nothing readable
	After           time.Duration // how long the server asks to wait; 0 when it does not say
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s %s: the server answers %d %s", e.Method, e.Address, e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Temporary reports whether the same request may succeed later.
func (e *StatusError) Temporary() bool {
	return e.Status >= 500 && e.Status != http.StatusNotImplemented || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
}

// IsStatus reports whether an error is an answer with one of these numbers.
func IsStatus(err error, numbers ...int) bool {
	var status *StatusError
	return errors.As(err, &status) && slices.Contains(numbers, status.Status)
}

func newStatusError(method, address string, resp *http.Response) *StatusError {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what cannot be read is not shown
	e := &StatusError{Method: method, Address: Address(address), Status: resp.StatusCode, Message: message(body)}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.After = min(time.Duration(min(seconds, 3600))*time.Second, MaxWait)
	}
	return e
}

// message returns what the body of an answer says: the message or the errors of a JSON object, or code and message of an XML document, as object
// stores send them. All else in such documents can repeat parts of the request, and so secrets.
func message(body []byte) string {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\ufeff")))
	var object struct {
		Message     any    `json:"message"`
		Error       any    `json:"error"`
		Errors      any    `json:"errors"` // of Vault
		Description string `json:"error_description"`
	}
	var document struct {
		Code    string `xml:"Code"`
		Message string `xml:"Message"`
	}
	switch {
	case len(body) == 0:
		return ""
	case body[0] == '{' && json.Unmarshal(body, &object) == nil:
		return line(strings.Join(slices.DeleteFunc([]string{words(object.Message), words(object.Error), words(object.Errors), object.Description}, func(s string) bool { return s == "" }), ": "))
	case body[0] == '<' && xml.Unmarshal(body, &document) == nil && document.Code != "":
		first, _, _ := strings.Cut(document.Message, "\n")
		return line(strings.TrimSuffix(document.Code+": "+first, ": "))
	}
	return ""
}

// words makes one text of what GitLab has as a message: a text, a list of them, or lists by the name of a field.
func words(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var all []string
		for _, item := range v {
			all = append(all, words(item))
		}
		return strings.Join(all, ", ")
	case map[string]any:
		var all []string
		for name, item := range v {
			all = append(all, strings.TrimSpace(name+" "+words(item)))
		}
		slices.Sort(all)
		return strings.Join(all, "; ")
	}
	return ""
}

// line is a text of one line of bounded length that cannot change a terminal.
func line(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
	if len(text) > maxErrorMessage {
		text = strings.ToValidUTF8(text[:maxErrorMessage], "") + "…"
	}
	return strings.TrimSpace(text)
}

// Address returns an address as it can be shown: without user and password, query and fragment.
func Address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(an address that cannot be read)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// checkURL reports what is wrong with an address.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("the address cannot be read; write it as https://HOST/PATH")
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return fmt.Errorf("%s: the address must be one of https or http", Address(raw))
	}
	return nil
}

// bare takes the address, with all that is in it, off an error of package net/http.
func bare(err error) error {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	return err
}
