package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

const minRSA, maxRSA = 2048, 8192 // bits: too few can be factored, too many are slow to verify

// key is a key that tokens can be verified with.
type key struct {
	id        string // kid; "" fits every token's
	kind      string // as in kinds
	algorithm string // the only one it is for; "" for every one of its kind
	material  any
}

func (k key) fits(alg jose.SignatureAlgorithm, kid string) bool {
	return k.kind == kinds[alg] && (k.algorithm == "" || k.algorithm == string(alg)) && (k.id == "" || kid == "" || k.id == kid)
}

// publicKey makes a key of what a parser gave. Private and symmetric ones have no kind here.
func publicKey(material any) (key, error) {
	switch m := material.(type) {
	case *rsa.PublicKey:
		if n := m.N.BitLen(); n < minRSA || n > maxRSA {
			return key{}, fmt.Errorf("an RSA key of %d bits; %d to %d can be used", n, minRSA, maxRSA)
		}
		return key{kind: "RSA", material: m}, nil
	case *ecdsa.PublicKey:
		kind := m.Curve.Params().Name
		if _, ok := usual[kind]; !ok {
			return key{}, fmt.Errorf("a key on the curve %s; P-256, P-384 and P-521 can be used", kind)
		}
		return key{kind: kind, material: m}, nil
	case ed25519.PublicKey:
		return key{kind: "Ed25519", material: m}, nil
	}
	return key{}, errors.New("not an RSA, ECDSA or Ed25519 public key")
}

// readPEM reads the keys of PEM text.
func readPEM(text string) ([]key, error) {
	var keys []key
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		material, err := readBlock(block)
		if err != nil {
			return nil, err
		}
		k, err := publicKey(material)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errors.New("not PEM text (-----BEGIN PUBLIC KEY----- ...)")
	}
	return keys, nil
}

func readBlock(b *pem.Block) (any, error) {
	switch b.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(b.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(b.Bytes)
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		return c.PublicKey, nil
	}
	if strings.HasSuffix(b.Type, "PRIVATE KEY") {
		return nil, errors.New("a private key; give its public half, and keep this one where tokens are signed")
	}
	return nil, fmt.Errorf("a PEM block of type %.40q; PUBLIC KEY, RSA PUBLIC KEY and CERTIFICATE can be read", b.Type)
}

// staticKeys are those that the options contain.
func (o Options) staticKeys() ([]key, error) {
	var keys []key
	if len(o.Secret) > 0 {
		keys = append(keys, key{kind: "secret", material: slices.Clone(o.Secret)})
	}
	for i, text := range o.PublicKeys {
		read, err := readPEM(text)
		if err != nil {
			return nil, fmt.Errorf("PublicKeys: number %d: %w", i+1, err)
		}
		keys = append(keys, read...)
	}
	return keys, nil
}

// algorithms are those that tokens may be signed by. Every one named must have a key, or may find one in the JWKS.
func (o Options) algorithms(keys []key) ([]jose.SignatureAlgorithm, error) {
	var algs []jose.SignatureAlgorithm
	if len(o.Algorithms) == 0 {
		for _, k := range keys {
			algs = append(algs, usual[k.kind])
		}
		if o.JWKSURL != "" {
			algs = append(algs, jose.RS256, jose.ES256)
		}
		slices.Sort(algs)
		return slices.Compact(algs), nil
	}
	for _, name := range o.Algorithms {
		alg := jose.SignatureAlgorithm(name)
		kind, ok := kinds[alg]
		if !ok {
			return nil, fmt.Errorf("Algorithms: %.40q is none of HS256, RS256, PS256, ES256 (or 384, 512) and EdDSA", name)
		}
		has := slices.ContainsFunc(keys, func(k key) bool { return k.kind == kind })
		if !has && (o.JWKSURL == "" || kind == "secret") {
			return nil, fmt.Errorf("Algorithms: %s needs a key (%s) that is not given", name, kind)
		}
		algs = append(algs, alg)
	}
	return algs, nil
}
