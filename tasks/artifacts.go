package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/memblob"  // mem://

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
)

// MaxArtifact is the largest artefact, in bytes.
const MaxArtifact = 64 << 20

// Artifacts keeps what jobs deliver. Each attempt writes under a name of its own,
// job_id/token/n.ext, and only once; the completion names the winner's.
type Artifacts struct{ bucket *blob.Bucket }

// OpenArtifacts opens file://DIR (made if it does not exist) or mem://.
func OpenArtifacts(ctx context.Context, address string) (*Artifacts, error) {
	if dir, ok := strings.CutPrefix(address, "file://"); ok {
		if strings.HasPrefix(dir, ".") {
			dir = "./" + dir // a relative directory: fileblob takes the host "." for it
		}
		address = "file://" + (&url.URL{Path: dir}).EscapedPath() + "?create_dir=true&metadata=skip&no_tmp_dir=true"
		address = strings.Replace(address, "file://./", "file://", 1)
	}
	bucket, err := blob.OpenBucket(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("ARTIFACTS_URL: %w", err)
	}
	return &Artifacts{bucket}, nil
}

// Close lets go of the store.
func (a *Artifacts) Close() error { return a.bucket.Close() }

// Write stores one output. What is there already is never replaced.
func (a *Artifacts) Write(ctx context.Context, jobID, token string, n int, out provider.Output) (ledger.Artifact, error) {
	if len(out.Data) > MaxArtifact {
		return ledger.Artifact{}, Permanent(fmt.Errorf("output %d has %d bytes; %d are allowed", n, len(out.Data), MaxArtifact))
	}
	if err := honest(out); err != nil {
		return ledger.Artifact{}, Permanent(fmt.Errorf("output %d: %w", n, err))
	}
	key := fmt.Sprintf("%s/%s/%d%s", jobID, token, n, extension(out.ContentType))
	if err := a.bucket.WriteAll(ctx, key, out.Data, &blob.WriterOptions{ContentType: out.ContentType, IfNotExist: true}); err != nil {
		return ledger.Artifact{}, fmt.Errorf("store output %d: %w", n, err)
	}
	sum := sha256.Sum256(out.Data)
	return ledger.Artifact{Key: key, ContentType: out.ContentType, Bytes: int64(len(out.Data)), SHA256: hex.EncodeToString(sum[:])}, nil
}

// Read returns a stored artefact.
func (a *Artifacts) Read(ctx context.Context, key string) ([]byte, error) {
	return a.bucket.ReadAll(ctx, key)
}

// Remove deletes what a losing attempt wrote.
func (a *Artifacts) Remove(ctx context.Context, artifacts []ledger.Artifact) {
	for _, x := range artifacts {
		_ = a.bucket.Delete(ctx, x.Key)
	}
}

// honest holds the content type that a generator names against the bytes: what claims to be a
// picture must be one.
func honest(out provider.Output) error {
	named, _, err := mime.ParseMediaType(out.ContentType)
	if err != nil {
		return fmt.Errorf("%q is not a content type", out.ContentType)
	}
	found, _, _ := mime.ParseMediaType(http.DetectContentType(out.Data))
	if strings.HasPrefix(named, "image/") && found != named && named != "image/svg+xml" {
		return fmt.Errorf("claims to be %s and is %s", named, found)
	}
	return nil
}

var extensions = map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif",
	"text/plain": ".txt", "application/json": ".json", "video/mp4": ".mp4"}

func extension(contentType string) string {
	named, _, _ := mime.ParseMediaType(contentType)
	return extensions[named]
}
