package bucket

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/rungci/rung/internal/sigv4"
)

var signatureOf = regexp.MustCompile(`SignedHeaders=([^,]*), *Signature=([0-9a-f]{64})$`)

// TestAmazonsPublishedExamples are those of the page "Signature Calculations for the Authorization Header" of Amazon S3.
func TestAmazonsPublishedExamples(t *testing.T) {
	t.Parallel()
	signer := &sigV4{key: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", region: "us-east-1"}
	now := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name, method, path, query, digest string
		header                            http.Header
		wantNames, want                   string
	}{
		{
			name: "GET object", method: "GET", path: "/test.txt", digest: emptySHA256, header: http.Header{"Range": {"bytes=0-9"}},
			wantNames: "host;range;x-amz-content-sha256;x-amz-date", want: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
		},
		{
			name: "PUT object", method: "PUT", path: "/test$file.text", digest: "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
			header:    http.Header{"Date": {"Fri, 24 May 2013 00:00:00 GMT"}, "X-Amz-Storage-Class": {"REDUCED_REDUNDANCY"}},
			wantNames: "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class", want: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
		},
		{
			name: "GET bucket lifecycle", method: "GET", path: "/", query: "lifecycle", digest: emptySHA256, header: http.Header{},
			wantNames: "host;x-amz-content-sha256;x-amz-date", want: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
		},
		{
			name: "GET bucket, list objects", method: "GET", path: "/", query: "max-keys=2&prefix=J", digest: emptySHA256, header: http.Header{},
			wantNames: "host;x-amz-content-sha256;x-amz-date", want: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := &http.Request{Method: tc.method, Header: tc.header, URL: &url.URL{Scheme: "https", Host: "examplebucket.s3.amazonaws.com", Path: tc.path, RawQuery: tc.query}}
			if err := signer.sign(r, tc.digest, now); err != nil {
				t.Fatal(err)
			}
			got := signatureOf.FindStringSubmatch(r.Header.Get("Authorization"))
			if got == nil || got[1] != tc.wantNames || got[2] != tc.want {
				t.Errorf("got %s", r.Header.Get("Authorization"))
			}
		})
	}
}

// TestSignaturesAreThoseOfAmazonsOwnSigner compares requests with odd names, values and queries.
func TestSignaturesAreThoseOfAmazonsOwnSigner(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, path := range []string{"/a", "/a b/c+d", "/ä/日本", "/!'()*~-._", "/%41%2F", "/a:b@c,d;e=f&g", "/line\nbreak", "/\xff\xfe"} {
		for _, token := range []string{"", "a/session+token=="} {
			r, err := http.NewRequest("PUT", "https://bucket.example.com"+sigv4.EncodePath(path), nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/octet-stream")
			r.Header.Set("X-Amz-Meta-Rungmark", "  two  blanks ")
			theirs := r.Clone(t.Context())
			digest := sigv4.HexSHA256(path)
			ours := &sigV4{key: "AKID", secret: "se/cret", token: token, region: "eu-central-1"}
			if err := ours.sign(r, digest, now); err != nil {
				t.Fatal(err)
			}
			theirs.Header.Set("X-Amz-Content-Sha256", digest)
			err = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(t.Context(),
				aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "se/cret", SessionToken: token}, theirs, digest, "s3", "eu-central-1", now)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := r.Header.Get("Authorization"), theirs.Header.Get("Authorization"); got != want {
				t.Errorf("%q:\n got %s\nwant %s", path, got, want)
			}
		}
	}
}

// googlesKey is the public half of the key that Google's conformance tests sign with.
const googlesKey = `-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEArD8zIqyKLbX0Nq8o0Jj1
qHEhHhqO3+0OP7TEFx5Vxc6PdwBoFNrfnJRI/S+ZaDYS1avr5Pqpp8g8+UNOMvI1
VsjGM8xjTaxkVv8mmKp6pSmQstTt25pzY1exA2wv4xNWSwWNFNx2kh35+kvTQ/DF
3YA9P7pUU1sKur1PP8OoubWLFO59iy5UE5dX0O/3pjvZ2HAhSXsx2VWtB5nlrHR8
FrKJNLJMEGEDSMz9yRfQaUeYCU9oDYHuiqKQ3rCXi6C82l+3FJw5/ggJ5y7iw8ME
rCFSslcYQRbBVz6ZYKWkEcJhs8BG3/16bfaqNusNlDIJ99I7DmipUngF/HEulYhf
rQIDAQAB
-----END PUBLIC KEY-----`

// TestGooglesConformanceTests are cases of googleapis/conformance-tests, storage/v1/v4_signatures.json: the text to sign must be theirs,
// and their signature must hold for it.
func TestGooglesConformanceTests(t *testing.T) {
	t.Parallel()
	block, _ := pem.Decode([]byte(googlesKey))
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, method, path, digest, signature string
		at                                    time.Time
		life                                  time.Duration
		header                                http.Header
	}{
		{
			name: "Simple GET", method: "GET", path: "/test-bucket/test-object", at: time.Date(2019, 2, 1, 9, 0, 0, 0, time.UTC), life: 10 * time.Second,
			digest:    "00e2fb794ea93d7adb703edaebdd509821fcc7d4f1a79ac5c8d2b394df109320",
			signature: "95e6a13d43a1d1962e667f17397f2b80ac9bdd1669210d5e08e0135df9dff4e56113485dbe429ca2266487b9d1796ebdee2d7cf682a6ef3bb9fbb4c351686fba90d7b621cf1c4eb1fdf126460dd25fa0837dfdde0a9fd98662ce60844c458448fb2b352c203d9969cb74efa4bdb742287744a4f2308afa4af0e0773f55e32e92973619249214b97283b2daa14195244444e33f938138d1e5f561088ce8011f4986dda33a556412594db7c12fc40e1ff3f1bedeb7a42f5bcda0b9567f17f65855f65071fabb88ea12371877f3f77f10e1466fff6ff6973b74a933322ff0949ce357e20abe96c3dd5cfab42c9c83e740a4d32b9e11e146f0eb3404d2e975896f74",
		},
		{
			name: "Simple PUT", method: "PUT", path: "/test-bucket/test-object", at: time.Date(2019, 2, 1, 9, 0, 0, 0, time.UTC), life: 10 * time.Second,
			digest:    "78742860705da91404222d5d66ff89850292471199c3c2808d116ad12e6177b4",
			signature: "8adff1d4285739e31aa68e73767a46bc5511fde377497dbe08481bf5ceb34e29cc9a59921748d8ec3dd4085b7e9b7772a952afedfcdaecb3ae8352275b8b7c867f204e3db85076220a3127a8a9589302fc1181eae13b9b7fe41109ec8cdc93c1e8bac2d7a0cc32a109ca02d06957211326563ab3d3e678a0ba296e298b5fc5e14593c99d444c94724cc4be97015dbff1dca377b508fa0cb7169195de98d0e4ac96c42b918d28c8d92d33e1bd125ce0fb3cd7ad2c45dae65c22628378f6584971b8bf3945b26f2611eb651e9b6a8648970c1ecf386bb71327b082e7296c4e1ee2fc0bdd8983da80af375c817fb1ad491d0bc22c0f51dba0d66e2cffbc90803e47",
		},
		{
			name: "POST for resumable uploads", method: "POST", path: "/test-bucket/test-object", at: time.Date(2019, 2, 1, 9, 0, 0, 0, time.UTC), life: 10 * time.Second,
			header:    http.Header{"X-Goog-Resumable": {"start"}},
			digest:    "877f8b40179d2753296f2fd6de815ab40503c7a3c446a7b44aa4e74422ff4daf",
			signature: "4a6d39b23343cedf4c30782aed4b384001828c79ffa3a080a481ea01a640dea0a0ceb58d67a12cef3b243c3f036bb3799c6ee88e8db3eaf7d0bdd4b70a228d0736e07eaa1ee076aff5c6ce09dff1f1f03a0d8ead0d2893408dd3604fdabff553aa6d7af2da67cdba6790006a70240f96717b98f1a6ccb24f00940749599be7ef72aaa5358db63ddd54b2de9e2d6d6a586eac4fe25f36d86fc6ab150418e9c6fa01b732cded226c6d62fc95b72473a4cc55a8257482583fe66d9ab6ede909eb41516a8690946c3e87b0f2052eb0e97e012a14b2f721c42e6e19b8a1cd5658ea36264f10b9b1ada66b8ed5bf7ed7d1708377ac6e5fe608ae361fb594d2e5b24c54",
		},
		{
			name: "Vary expiration and timestamp", method: "GET", path: "/test-bucket/test-object", at: time.Date(2019, 3, 1, 9, 0, 0, 0, time.UTC), life: 20 * time.Second,
			digest:    "779f19fdb6fd381390e2d5af04947cf21750277ee3c20e0c97b7e46a1dff8907",
			signature: "9669ed5b10664dc594c758296580662912cf4bcc5a4ba0b6bf055bcbf6f34eed7bdad664f534962174a924741a0c273a4f67bc1847cef20192a6beab44223bd9d4fbbd749c407b79997598c30f82ddc269ff47ec09fa3afe74e00616d438df0d96a7d8ad0adacfad1dc3286f864d924fe919fb0dce45d3d975c5afe8e13af2db9cc37ba77835f92f7669b61e94c6d562196c1274529e76cfff1564cc2cad7d5387dc8e12f7a5dfd925685fe92c30b43709eee29fa2f66067472cee5423d1a3a4182fe8cea75c9329d181dc6acad7c393cd04f8bf5bc0515127d8ebd65d80c08e19ad03316053ea60033fd1b1fd85a69c576415da3bf0a3718d9ea6d03e0d66f0",
		},
		{
			name: "Slashes in object name should not be URL encoded", method: "GET", path: "/test-bucket/path/with/slashes/under_score/amper&sand/file.ext",
			at: time.Date(2019, 2, 1, 9, 0, 0, 0, time.UTC), life: 10 * time.Second, header: http.Header{"Header/name/with/slash": {"should-be-encoded"}},
			digest:    "f1d206dd8cbe1b892d4081ccddae0927d9f5fee5653fb2a2f43e7c20ed455cad",
			signature: "2a9a82e84e39f5d2c0d980514db17f8c3dece473c9a5743d54e8453f9811927b1b99ce548c534cababd8fa339183e75b410e12e32a4c72f5ff176e95651fabed0072e59e7e236eb7e26f52c0ce599db1c47ae07af1a98d20872b6fde23432c0a5fcf4fb2dda735169198c80cd5cc51be9904f7e5eef2cc489ff44ac5697c529e4b34ac08709a7d2e425619377212c64561ed8b4d2fcb70a26e4f9236f995ab4658d240ac85c7a353bae6b2d39d5fc0716afa435a1f6e100db5504612b5e610db370623ab4b8eba3c03c98f23dcb4b9ffd518f2212abb2f93649d25385d71603d470cff0b7631adb9d0849d38609dedb3097761c8f47ec0d57777bb063611c05b",
		},
		{
			name: "Simple headers", method: "GET", path: "/test-bucket/test-object", at: time.Date(2019, 2, 1, 9, 0, 0, 0, time.UTC), life: 10 * time.Second,
			header:    http.Header{"BAR": {"BAR-value"}, "foo": {"foo-value"}},
			digest:    "59c1ac1a6ee7d773d5c4487ecc861d60b71c4871dd18fc7d8485fac09df1d296",
			signature: "68ecd3b008328ed30d91e2fe37444ed7b9b03f28ed4424555b5161980531ef87db1c3a5bc0265aad5640af30f96014c94fb2dba7479c41bfe1c020eb90c0c6d387d4dd09d4a5df8b60ea50eb6b01cdd786a1e37020f5f95eb8f9b6cd3f65a1f8a8a65c9fcb61ea662959efd9cd73b683f8d8804ef4d6d9b2852419b013368842731359d7f9e6d1139032ceca75d5e67cee5fd0192ea2125e5f2955d38d3d50cf116f3a52e6a62de77f6207f5b95aaa1d7d0f8a46de89ea72e7ea30f21286318d7eba0142232b0deb3a1dc9e1e812a981c66b5ffda3c6b01a8a9d113155792309fd53a3acfd054ca7776e8eec28c26480cd1e3c812f67f91d14217f39a606669d",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := &http.Request{Method: tc.method, Header: tc.header, URL: &url.URL{Scheme: "https", Host: "storage.googleapis.com", Path: tc.path}}
			text := sigv4.GoogleText(r, "test-iam-credentials@dummy-project-id.iam.gserviceaccount.com", tc.at, tc.life)
			want := "GOOG4-RSA-SHA256\n" + tc.at.Format(amzTime) + "\n" + tc.at.Format(dateOnly) + "/auto/storage/goog4_request\n" + tc.digest
			if text != want {
				t.Fatalf("got %q, want %q", text, want)
			}
			signature, err := hex.DecodeString(tc.signature)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256([]byte(text))
			if err := rsa.VerifyPKCS1v15(parsed.(*rsa.PublicKey), crypto.SHA256, sum[:], signature); err != nil {
				t.Errorf("the published signature does not hold for our text: %v", err)
			}
		})
	}
}

// TestMicrosoftsPublishedTexts are those of the pages "Authorize with Shared Key" and "Call REST API operations with Shared Key".
func TestMicrosoftsPublishedTexts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, method, account, url string
		header                     http.Header
		length                     int64
		want                       string
	}{
		{
			name: "container metadata", method: "GET", account: "myaccount", url: "https://myaccount.blob.core.windows.net/mycontainer?restype=container&comp=metadata&timeout=20",
			header: http.Header{"X-Ms-Date": {"Fri, 26 Jun 2015 23:39:12 GMT"}, "X-Ms-Version": {"2015-02-21"}},
			want:   "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20",
		},
		{
			name: "list of containers", method: "GET", account: "contosorest", url: "https://contosorest.blob.core.windows.net/?comp=list",
			header: http.Header{"X-Ms-Date": {"Fri, 17 Nov 2017 00:44:48 GMT"}, "X-Ms-Version": {"2017-07-29"}},
			want:   "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 17 Nov 2017 00:44:48 GMT\nx-ms-version:2017-07-29\n/contosorest/\ncomp:list",
		},
		{
			name: "put blob", method: "PUT", account: "myaccount", url: "https://myaccount.blob.core.windows.net/mycontainer/a%20b", length: 11,
			header: http.Header{"Content-Type": {"text/plain; charset=UTF-8"}, "X-Ms-Blob-Type": {"BlockBlob"}, "X-Ms-Meta-M1": {"v1"}, "X-Ms-Meta-M2": {" v2 "}},
			want:   "PUT\n\n\n11\n\ntext/plain; charset=UTF-8\n\n\n\n\n\n\nx-ms-blob-type:BlockBlob\nx-ms-meta-m1:v1\nx-ms-meta-m2:v2\n/myaccount/mycontainer/a%20b",
		},
		{
			name: "many values in the query", method: "GET", account: "myaccount", url: "https://myaccount.blob.core.windows.net/c?restype=container&comp=list&include=snapshots&include=metadata&include=uncommittedblobs",
			header: http.Header{}, want: "GET\n\n\n\n\n\n\n\n\n\n\n\n/myaccount/c\ncomp:list\ninclude:metadata,snapshots,uncommittedblobs\nrestype:container",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequest(tc.method, tc.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header, r.ContentLength = tc.header, tc.length
			if got := (&sharedKey{account: tc.account}).text(r); got != tc.want {
				t.Errorf("got %q\nwant %q", got, tc.want)
			}
		})
	}
}

// emulatorKey is the key of the account of Microsoft's emulators, which everybody knows.
const emulatorKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

// TestSharedKeySignature is computed with `openssl dgst -mac HMAC`.
func TestSharedKeySignature(t *testing.T) {
	t.Parallel()
	key, err := base64.StdEncoding.DecodeString(emulatorKey)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest("PUT", "https://devstoreaccount1.blob.core.windows.net/mycontainer/myblob.txt", strings.NewReader("hello world"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"text/plain; charset=UTF-8"}, "X-Ms-Blob-Type": {"BlockBlob"}, "X-Ms-Meta-M1": {"v1"}, "X-Ms-Meta-M2": {"v2"}}
	s := &sharedKey{account: "devstoreaccount1", key: key}
	if err := s.sign(r, "", time.Date(2019, 1, 1, 12, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	if got, want := r.Header.Get("Authorization"), "SharedKey devstoreaccount1:6ycTBywf1tnra33TJoteskWelMHmTwCWLjIBEi1szjI="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
