package app

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/provider/generations"
)

// GenerationType is the job type that a generation service makes, where one is configured.
const GenerationType = "generation"

// What configures the generation service; without its URL there is none.
const (
	GenerationsURLVar    = "GENERATIONS_URL"
	GenerationsKeyVar    = "GENERATIONS_KEY"
	GenerationsSecretVar = "GENERATIONS_WEBHOOK_SECRET"
	GenerationsPriceVar  = "GENERATIONS_PRICE" // credits a unit; 5 when unset
)

// generationService is a service that speaks the generations protocol; nil when none is
// configured. It calls back where PUBLIC_URL is known and a secret to check it with.
func generationService(cfg config.Config) (provider.Vendor, error) {
	o := generations.Options{URL: os.Getenv(GenerationsURLVar), Key: os.Getenv(GenerationsKeyVar), Price: 5}
	if o.URL == "" {
		return nil, nil //nolint:nilnil // none is configured
	}
	if text := os.Getenv(GenerationsPriceVar); text != "" {
		price, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a whole number of credits", GenerationsPriceVar, text)
		}
		o.Price = price
	}
	if secrets := os.Getenv(GenerationsSecretVar); secrets != "" {
		o.Secrets = strings.Split(secrets, ",")
		if cfg.PublicURL != "" {
			o.CallbackURL = strings.TrimSuffix(cfg.PublicURL, "/") + "/v1/callbacks/generations"
		}
	}
	return generations.New(o)
}
