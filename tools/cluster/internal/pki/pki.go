// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Names of the files that Write writes.
const (
	CACertificate     = "ca.crt"
	ServerCertificate = "server.crt"
	ServerKey         = "server.key"
	AccountKey        = "accounts.key" // signs the tokens of service accounts
)

// Write writes a certificate authority, and the certificate and key of a server with these names
// and addresses. It also writes the key for tokens of service accounts. All files are PEM.
func Write(dir string, names []string, addresses []netip.Addr) error {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority := template("cluster CA")
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return fmt.Errorf("certificate authority: %w", err)
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	server := template("kube-apiserver")
	server.DNSNames = names
	for _, address := range addresses {
		server.IPAddresses = append(server.IPAddresses, net.IP(address.AsSlice()))
	}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, serverKey.Public(), authorityKey)
	if err != nil {
		return fmt.Errorf("certificate of the server: %w", err)
	}
	accountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, CACertificate), "CERTIFICATE", authorityDER); err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, ServerCertificate), "CERTIFICATE", serverDER); err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, ServerKey), serverKey); err != nil {
		return err
	}
	return writeKey(filepath.Join(dir, AccountKey), accountKey)
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(30 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(file, "EC PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
