// Code snippets that fetch this job from a shell, Python and R. They never contain the token.
const route = (job, origin) => `${origin}/v1/jobs/${job.id}`;

export const SNIPPETS = {
  curl: {
    name: "curl",
    text: (job, origin) => `export BARKER_TOKEN=bk_...   # your token
url=${route(job, origin)}
curl -sf $url -H "Authorization: Bearer $BARKER_TOKEN"
curl -sf "$url/summary?order=worst" -H "Authorization: Bearer $BARKER_TOKEN"
curl -sf "$url/draws?format=csv" -H "Authorization: Bearer $BARKER_TOKEN" -o draws.csv`,
  },
  barker: {
    name: "barker",
    text: (job, origin) => `export BARKER_URL=${origin} BARKER_TOKEN=bk_...   # not needed on the server itself
barker watch ${job.id}
barker summary ${job.id}
barker draws ${job.id} --format csv -o draws.csv`,
  },
  python: {
    name: "Python",
    text: (job, origin) => `import json, os, urllib.request

def get(path):
    request = urllib.request.Request("${route(job, origin)}" + path,
                                     headers={"Authorization": "Bearer " + os.environ["BARKER_TOKEN"]})
    return urllib.request.urlopen(request)

summary = json.load(get("/summary"))
for row in summary["parameters"][:10]:
    print(row["name"], row["mean"], row["sd"], row["rhat"])

import io, numpy                      # optional: chain x draw x parameter
draws = numpy.load(io.BytesIO(get("/draws?format=npy").read()))`,
  },
  r: {
    name: "R",
    text: (job, origin) => `base <- "${route(job, origin)}"
auth <- c(Authorization = paste("Bearer", Sys.getenv("BARKER_TOKEN")))

draws <- read.csv(url(paste0(base, "/draws?format=csv"), headers = auth), check.names = FALSE)
summary <- jsonlite::fromJSON(url(paste0(base, "/summary"), headers = auth))
head(summary$parameters)

posterior::summarise_draws(posterior::as_draws_df(draws))`,
  },
};
