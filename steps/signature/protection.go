package signature

import (
	"crypto/aes"
	"crypto/des"
	"crypto/x509/pkix"
	"encoding/asn1"
)

// Bounds on what opening a protected key may cost. They are far above what tools choose: openssl takes 2048 rounds of PBKDF2,
// or 16 MiB of scrypt.
const (
	maxRounds       = 50_000_000
	maxScryptMemory = 1 << 30 // bytes
)

// The shapes of RFC 8018 that an encrypted PKCS#8 key is made of.
type (
	protectedKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2 struct {
		Derivation, Cipher pkix.AlgorithmIdentifier
	}
	pbkdf2Cost struct {
		Salt   []byte
		Rounds int
		Length int                      `asn1:"optional"`
		Hash   pkix.AlgorithmIdentifier `asn1:"optional"`
	}
	scryptCost struct {
		Salt                 []byte
		Cost, Block, Threads int
		Length               int `asn1:"optional"`
	}
)

// checkProtection looks at how a key is protected before it is opened: the library that opens it trusts what it reads there.
func checkProtection(der []byte) error {
	var key protectedKey
	var how pbes2
	rest, err := asn1.Unmarshal(der, &key)
	if err != nil || len(rest) > 0 {
		return keyError("its %s is damaged", pemProtected)
	}
	if !key.Algorithm.Algorithm.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}) {
		return keyError("it is protected in an old form; rewrite it with `openssl pkcs8 -topk8 -v2 aes256 -in KEY -out NEW`")
	}
	if _, err := asn1.Unmarshal(key.Algorithm.Parameters.FullBytes, &how); err != nil {
		return keyError("its %s is damaged: %v", pemProtected, err)
	}
	var iv []byte
	if _, err := asn1.Unmarshal(how.Cipher.Parameters.FullBytes, &iv); err != nil {
		return keyError("its %s is damaged: %v", pemProtected, err)
	}
	if n := len(iv); n != aes.BlockSize && n != des.BlockSize || len(key.Data) == 0 || len(key.Data)%n != 0 || !cipherTakes(how.Cipher.Algorithm, n) {
		return keyError("its %s is damaged, or its cipher is not supported; rewrite it with `openssl pkcs8 -topk8 -v2 aes256 -in KEY -out NEW`", pemProtected)
	}
	return checkCost(how.Derivation)
}

// cipherTakes reports whether the cipher is one that opens keys, and has blocks of n bytes.
func cipherTakes(cipher asn1.ObjectIdentifier, n int) bool {
	tripleDES := asn1.ObjectIdentifier{1, 2, 840, 113549, 3, 7}
	if cipher.Equal(tripleDES) {
		return n == des.BlockSize
	}
	aesCBC := map[string]bool{"2.16.840.1.101.3.4.1.2": true, "2.16.840.1.101.3.4.1.22": true, "2.16.840.1.101.3.4.1.42": true}
	return aesCBC[cipher.String()] && n == aes.BlockSize
}

func checkCost(derivation pkix.AlgorithmIdentifier) error {
	params := derivation.Parameters.FullBytes
	switch derivation.Algorithm.String() {
	case "1.2.840.113549.1.5.12": // PBKDF2
		var cost pbkdf2Cost
		if _, err := asn1.Unmarshal(params, &cost); err != nil || cost.Rounds < 1 {
			return keyError("its %s is damaged: the parameters of PBKDF2 are wrong", pemProtected)
		}
		if cost.Rounds > maxRounds {
			return keyError("opening it takes %d rounds of PBKDF2, and %d are the limit", cost.Rounds, maxRounds)
		}
	case "1.3.6.1.4.1.11591.4.11": // scrypt
		var cost scryptCost
		if _, err := asn1.Unmarshal(params, &cost); err != nil || cost.Cost < 2 || cost.Block < 1 || cost.Threads < 1 {
			return keyError("its %s is damaged: the parameters of scrypt are wrong", pemProtected)
		}
		if cost.Cost > maxScryptMemory/128/cost.Block || cost.Threads > 64 {
			return keyError("opening it takes more than the %d MiB of memory that are the limit", maxScryptMemory>>20)
		}
	default:
		return keyError("its password goes through a function that is not supported (%v); rewrite it with `openssl pkcs8 -topk8 -v2 aes256 -in KEY -out NEW`", derivation.Algorithm)
	}
	return nil
}
