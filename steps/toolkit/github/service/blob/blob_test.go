package blob_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rungci/rung/steps/toolkit/github/service/blob"
)

func begin(t testing.TB) *blob.Upload {
	t.Helper()
	store := blob.NewStore(t.TempDir())
	u, err := store.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if store.Find(u.ID) != u || store.Find("other") != nil {
		t.Error("an upload is not found by its ID")
	}
	return u
}

func text(t *testing.T, u *blob.Upload) string {
	t.Helper()
	c, err := u.Content()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.Path)
	if err != nil || int64(len(text)) != c.Size {
		t.Errorf("%d bytes of %d, %v", len(text), c.Size, err)
	}
	return string(text)
}

func TestAContentIsTheBlocksOfTheList(t *testing.T) {
	t.Parallel()
	u := begin(t)
	for id, block := range map[string]string{"YQ==": "a", "Yg": "b", "Yw==": "c"} {
		if err := u.Block(id, strings.NewReader(block)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		ids  []string
		want string
	}{{[]string{"Yw", "YQ==", "YQ"}, "caa"}, {nil, ""}, {[]string{"Yg=="}, "b"}} {
		if err := u.Commit(tt.ids); err != nil || text(t, u) != tt.want {
			t.Errorf("%v is %q, %v; want %q", tt.ids, text(t, u), err, tt.want)
		}
	}
	for _, ids := range [][]string{{"none"}, {""}, {strings.Repeat("x", 200)}} {
		if err := u.Commit(ids); !errors.Is(err, blob.ErrBadBlock) {
			t.Errorf("%v: the error is %v", ids, err)
		}
	}
	if err := u.Commit(make([]string, blob.MaxBlocks+1)); !errors.Is(err, blob.ErrTooLarge) {
		t.Errorf("the error is %v", err)
	}
}

func TestABlockThatBreaksOffIsNone(t *testing.T) {
	t.Parallel()
	u := begin(t)
	broken := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if err := u.Block("YQ==", broken); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the error is %v", err)
	}
	if err := u.Commit([]string{"YQ=="}); !errors.Is(err, blob.ErrBadBlock) {
		t.Errorf("the error is %v", err)
	}
	if _, err := u.Content(); !errors.Is(err, blob.ErrIncomplete) {
		t.Errorf("the error is %v", err)
	}
}

func FuzzBlockList(f *testing.F) {
	f.Add("<BlockList><Latest>YQ==</Latest></BlockList>")
	f.Add("<!DOCTYPE a [<!ENTITY b \"c\">]><BlockList><Latest>&b;</Latest></BlockList>")
	f.Add("<a><a><a>")
	f.Fuzz(func(t *testing.T, list string) {
		u := begin(t)
		if err := u.Block("YQ==", strings.NewReader("a")); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		blob.ServeUpload(w, httptest.NewRequest(http.MethodPut, "/?comp=blocklist", strings.NewReader(list)), u)
		if w.Code != http.StatusCreated && w.Code != http.StatusBadRequest && w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("the answer is %d %s", w.Code, w.Body)
		}
	})
}
