# The workloads of `make bench` in R, vectorised, in the manner of the paper's published experiments: a function for the
# gradient of a batch, a matrix with the gradient of every row of it, a loop over iterations. See worker.h.
set.seed(1)
alpha <- 3; shape <- 1; rate <- 5; beta <- 0.1; stretch <- 1.702

words <- strsplit(commandArgs(trailingOnly = TRUE), "=")
w <- list(variant = "vanilla", users = 0, items = 0, chains = 1, sigma = 0.1, N = 0, d = 1, n = 0)
for (word in words) {
  number <- suppressWarnings(as.numeric(word[2]))
  w[[word[1]]] <- if (is.na(number)) word[2] else number
}
corrected <- w$variant == "corrected"
n <- if (w$n > 0) w$n else w$N

logistic <- function() {
  x <- matrix(runif(w$N * w$d, -1.7, 1.7), w$N)
  y <- as.numeric(x[, 1] + runif(w$N, -1.7, 1.7) > 0)
  scale <- w$N / sqrt(n) * sqrt((w$N - n) / (w$N - 1))
  list(start = rep(0, w$d), gradient = function(theta) {
    if (w$n > 0) {
      idx <- sample.int(w$N, w$n)
      xb <- x[idx, , drop = FALSE]
      yb <- y[idx]
    } else {
      xb <- x
      yb <- y
    }
    terms <- xb * as.vector(yb - 1 / (1 + exp(-xb %*% theta)))
    list(g = -theta + w$N / n * colSums(terms), tau = if (corrected) scale * apply(terms, 2, sd))
  })
}

prior <- function(z, mu, l) {
  lambda <- exp(l)
  deviation <- z - mu # one column per user or item
  list(z = -lambda * deviation, mu = lambda * (rowSums(deviation) - mu),
       l = (ncol(z) + 1) / 2 + shape - lambda * ((rowSums(deviation^2) + mu^2) / 2 + rate))
}

factorization <- function() {
  user <- sample.int(w$users, w$N, TRUE)
  item <- sample.int(w$items, w$N, TRUE)
  y <- sample(-2:2, w$N, TRUE)
  k <- w$d
  d <- (w$users + w$items + 4) * k
  add <- function(g, who, terms) {
    sums <- rowsum(terms, who)
    at <- as.integer(rownames(sums))
    g[, at] <- g[, at] + t(sums)
    g
  }
  list(start = rnorm(d) * rep(c(1, 0.1), c(d - 4 * k, 4 * k)), gradient = function(theta) {
    u <- matrix(theta[1:(w$users * k)], k)
    v <- matrix(theta[w$users * k + 1:(w$items * k)], k)
    hyper <- matrix(theta[(d - 4 * k + 1):d], k)
    gu <- prior(u, hyper[, 1], hyper[, 3])
    gv <- prior(v, hyper[, 2], hyper[, 4])
    idx <- sample.int(w$N, w$n)
    ub <- t(u[, user[idx]])
    vb <- t(v[, item[idx]])
    slope <- alpha * w$N / w$n * (y[idx] - rowSums(ub * vb))
    list(g = c(add(gu$z, user[idx], slope * vb), add(gv$z, item[idx], slope * ub), gu$mu, gv$mu, gu$l, gv$l))
  })
}

ica <- function() {
  x <- matrix(runif(w$N * w$d, -1.7, 1.7), w$N)
  list(start = as.vector(diag(w$d)), gradient = function(theta) {
    W <- matrix(theta, w$d)
    xb <- x[sample.int(w$N, w$n), ]
    slope <- tanh(0.5 * tcrossprod(W, xb))
    total <- slope %*% xb
    scale <- w$N / sqrt(n) * sqrt((w$N - n) / (w$N - 1))
    list(g = as.vector(w$N * t(solve(W)) - W - w$N / n * total),
         tau = if (corrected) scale * sqrt(as.vector((slope^2 %*% xb^2 - total^2 / n) / (n - 1))))
  })
}

# One chain after the other.
skew_normal <- function() {
  list(start = 0, gradient = function(theta) {
    list(g = -theta + exp(dnorm(theta, log = TRUE) - pnorm(theta, log.p = TRUE)) + rnorm(1))
  })
}

model <- get(w$model)()
theta <- model$start
average <- squares <- smooth <- 0 * theta
t_now <- 0

iterate <- function() {
  t_now <<- t_now + 1
  at <- model$gradient(theta)
  g <- at$g
  jump <- rnorm(length(theta), w$sigma, 0.1 * w$sigma)
  if (corrected) {
    smooth <<- (1 - beta) * smooth + beta * at$tau
    room <- stretch^2 - (smooth / (1 - (1 - beta)^t_now) * jump)^2
    g <- g * ifelse(room > 0, stretch / sqrt(pmax(room, 0)), Inf)
  }
  sign <- 2 * (runif(length(theta)) < 1 / (1 + exp(-g * jump))) - 1
  theta <<- theta + sign * jump
  delta <- theta - average
  average <<- average + delta / t_now
  squares <<- squares + delta * (theta - average)
}

cat("ready\n")
input <- file("stdin", "r")
while (length(line <- readLines(input, 1)) > 0) {
  iterations <- as.numeric(strsplit(line, " ")[[1]][3])
  for (i in seq_len((iterations %/% 16 + 1) * w$chains)) iterate()
  start <- proc.time()
  for (i in seq_len(iterations * w$chains)) iterate()
  took <- proc.time() - start
  if (!all(is.finite(theta))) stop("a chain has diverged")
  cat(sprintf("%.9f %.9f\n", took[[1]] + took[[2]], took[[3]]))
  flush(stdout())
}
